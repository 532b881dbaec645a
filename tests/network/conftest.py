"""Tests in this directory need root, control groups and a kernel that shapes traffic; elsewhere they are skipped."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

import pytest

from framework.testbeds.host import bpf, traffic_control


@cache
def missing() -> str:
    """Say why these tests cannot run on this machine; empty where they can."""
    if os.geteuid() != 0:
        return "network namespaces are root's to make"
    if shutil.which("unshare") is None:
        return "the command unshare is missing"
    if " cgroup2 " not in Path("/proc/self/mounts").read_text():
        return "cgroup v2 is not mounted"
    return traffic_control.missing() or bpf.missing()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("network") is None or not missing():
        return
    if os.environ.get("TAILOR_REQUIRE_DOCKER") == "1":
        pytest.fail(f"TAILOR_REQUIRE_DOCKER=1, but {missing()}", pytrace=False)
    pytest.skip(missing())
