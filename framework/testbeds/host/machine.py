"""Description of the machine that Tailor runs on, recorded with each result."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from framework.model import Machine

PROC = Path("/proc")


def machine() -> Machine:
    """Describe this machine without a Docker Engine: the engine and compose are "none"."""
    return Machine(
        hostname=platform.node(),
        cores=os.cpu_count() or 1,
        memory_mib=_memory_mib(),
        kernel=platform.release(),
        cpu=_cpu(),
        engine="none",
        compose="none",
        python=platform.python_version(),
        tailor=_tailor(),
    )


def _memory_mib() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def _cpu() -> str:
    try:
        lines = (PROC / "cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _tailor() -> str:
    try:
        return version("tailor")
    except PackageNotFoundError:
        return "not installed"
