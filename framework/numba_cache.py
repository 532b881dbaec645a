"""Numba, told first where to keep what it compiled: a directory named by the sources.  Nobody imports it elsewhere.

Numba looks at the file of a function to see whether what it kept still holds, but not at the files of the functions
that it calls.  An edit there would go unnoticed, and numbers would come from code that is no longer there.

Only who compiles imports this module: to hash the sources and to import numba takes longer than most commands do.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent
SOURCES = ("model", "twin", "critical_path", "traces", "objective")  # who compiles, and what is called from there


def choose_cache(package: Path = PACKAGE) -> None:
    """Tell numba, before anything is compiled; a directory that the user chose stays."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    digest = hashlib.sha256()
    for path in sorted(path for name in SOURCES for path in (package / name).rglob("*.py")):
        digest.update(path.read_bytes())
    chosen = package / "__pycache__" / f"compiled-{digest.hexdigest()[:16]}"
    try:
        chosen.mkdir(parents=True, exist_ok=True)
    except OSError:  # an installation that cannot be written: numba has a directory of the user's
        return
    for other in chosen.parent.glob("compiled-*"):
        if other != chosen:
            shutil.rmtree(other, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = str(chosen)
    if "numba" in sys.modules:  # an optimizer imported it, and it has read its environment
        sys.modules["numba"].config.CACHE_DIR = str(chosen)


choose_cache()

import numba as numba  # noqa: E402
