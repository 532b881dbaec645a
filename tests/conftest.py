"""Tests marked ``docker`` run for real where a Docker Engine answers and the images are there.

Elsewhere they are skipped with the reason, or fail with it where TAILOR_REQUIRE_DOCKER=1 says that they must run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says something about the machine, not about the code.
settings.register_profile("tailor", deadline=None, derandomize=True)
settings.load_profile("tailor")

# These variables of a terminal decide how wide and how coloured the output is.
for name in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)

ROOT = Path(__file__).resolve().parent.parent
ANSWER_S = 20


def _output(command: list[str]) -> tuple[bool, str]:
    """Return whether a command succeeded, and its output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except subprocess.TimeoutExpired:
        return False, f"no answer in {ANSWER_S} s"
    succeeded = done.returncode == 0
    return succeeded, (done.stdout if succeeded else done.stderr).strip()


@cache
def missing_for_docker() -> str:
    """Return the reason why Docker tests cannot run on this machine; empty where they can."""
    if shutil.which("docker") is None:
        return "the docker command is missing"
    answers, said = _output(["docker", "version", "--format", "{{.Server.Version}}"])
    if not answers:
        return f"no Docker Engine answers ({said.splitlines()[-1] if said else 'nothing said'})"
    composes = (["docker", "compose", "version"], ["docker-compose", "--version"])
    if not any(shutil.which(compose[0]) and _output(compose)[0] for compose in composes):
        return "no compose command: make compose"
    listed, names = _output([str(ROOT / "scripts" / "images"), "--list"])
    if not listed:
        return f"the list of images cannot be made: {names}"
    absent = [name for name in names.split() if not _output(["docker", "image", "inspect", name])[0]]
    return f"images are missing ({', '.join(absent)}): make images" if absent else ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("docker") is None:
        return
    missing = missing_for_docker()
    if not missing:
        return
    if os.environ.get("TAILOR_REQUIRE_DOCKER") == "1":
        pytest.fail(f"TAILOR_REQUIRE_DOCKER=1, but {missing}", pytrace=False)
    pytest.skip(missing)
