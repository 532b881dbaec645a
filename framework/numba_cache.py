"""Numba with a cache directory that is named by a hash of the sources.  Other modules import numba only from here.

Numba checks only the file of a compiled function, not the files of the functions that it calls.  Without the hash, an
edit there would go unnoticed, and results would come from old code.

Only modules that compile import this one: hashing the sources and importing numba takes longer than most commands do.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent
SOURCES = ("model", "twin", "critical_path", "traces", "objective")  # packages that compile, and those that they call


def choose_cache(package: Path = PACKAGE) -> None:
    """Set numba's cache directory, before anything is compiled, unless the user has set one."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    digest = hashlib.sha256()
    for path in sorted(path for name in SOURCES for path in (package / name).rglob("*.py")):
        digest.update(path.read_bytes())
    chosen = package / "__pycache__" / f"compiled-{digest.hexdigest()[:16]}"
    try:
        chosen.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only installation: numba uses a directory of the user
        return
    for other in chosen.parent.glob("compiled-*"):
        if other != chosen:
            shutil.rmtree(other, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = str(chosen)
    if "numba" in sys.modules:  # an optimizer imported it, and numba reads its environment only once
        sys.modules["numba"].config.CACHE_DIR = str(chosen)


choose_cache()

import numba as numba  # noqa: E402
