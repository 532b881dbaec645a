"""The lock of a process: one process runs a project, and the lock is free as soon as that process is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from framework.errors import InputError
from framework.study.locks import known_projects, process_lock

HOLD = """
import pathlib, sys
from framework.study.locks import process_lock
with process_lock(pathlib.Path(sys.argv[1]), "one"):
    print("held", flush=True)
    input()
"""


def test_one_process_holds_a_project_until_it_is_killed(tmp_path: Path) -> None:
    assert known_projects(tmp_path) == []
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            with pytest.raises(InputError, match="is being run by another process"), process_lock(tmp_path, "one"):
                pass
            with process_lock(tmp_path, "two"):
                pass
        finally:
            other.kill()
    with process_lock(tmp_path, "one"):
        assert known_projects(tmp_path) == ["one", "two"]
