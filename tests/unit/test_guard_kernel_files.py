"""Kernel files of this machine, below a directory of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.errors import KnobRefused
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.kernel_files import HostKernelFiles


@pytest.fixture
def files(tmp_path: Path) -> KernelFiles:
    (tmp_path / "knob").write_text("a long old value\n")
    (tmp_path / "group").mkdir()
    (tmp_path / "group" / "tasks").write_text("")
    return HostKernelFiles(tmp_path)


def test_a_write_is_the_whole_value(files: KernelFiles) -> None:
    assert files.read("/knob") == "a long old value\n"
    files.write("/knob", "short\n")
    assert files.read("/knob") == "short\n"


def test_a_knob_that_is_not_there_is_not_made(files: KernelFiles, tmp_path: Path) -> None:
    with pytest.raises(KnobRefused, match=r"/other = 1: No such file or directory") as error:
        files.write("/other", "1\n")
    assert error.value.reason == "No such file or directory"
    assert not (tmp_path / "other").exists()
    with pytest.raises(KnobRefused):
        files.read("/other")


@pytest.mark.parametrize("operation", ["read", "write", "entries", "make", "remove"])
def test_refusals_have_the_kernels_reason(files: KernelFiles, operation: str) -> None:
    reasons = {
        "read": ("/group", "Is a directory"),
        "write": ("/group", "Is a directory"),
        "entries": ("/knob", "Not a directory"),
        "make": ("/knob", "File exists"),
        "remove": ("/group", "Directory not empty"),
    }
    path, reason = reasons[operation]
    arguments = (path, "1") if operation == "write" else (path,)
    with pytest.raises(KnobRefused) as error:
        getattr(files, operation)(*arguments)
    assert error.value.reason == reason
    assert path in error.value.knob


def test_bytes_that_are_no_text(files: KernelFiles, tmp_path: Path) -> None:
    (tmp_path / "knob").write_bytes(b"\xff\xfe")
    with pytest.raises(KnobRefused):
        files.read("/knob")


def test_groups(files: KernelFiles, tmp_path: Path) -> None:
    files.make("/group")  # it exists
    files.make("/group/below")
    assert files.entries("/group") == ["below", "tasks"]
    assert files.exists("/group/below")
    files.remove("/group/below")
    files.remove("/group/below")  # it has gone
    assert not files.exists("/group/below")
    assert files.entries("/nowhere") == []
    with pytest.raises(KnobRefused, match="No such file or directory"):
        files.make("/nowhere/below")
    assert not files.exists("/knob/below")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_value_that_is_not_taken() -> None:
    with pytest.raises(KnobRefused, match="No space left on device"):
        HostKernelFiles(Path("/dev")).write("/full", "1")
