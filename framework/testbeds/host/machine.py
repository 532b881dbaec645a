"""The facts of the machine that stand behind a result."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from framework.errors import MissingPrerequisite, TestbedUnavailable
from framework.model import Machine
from framework.testbeds.docker.compose_command import ComposeCommand
from framework.testbeds.docker.engine import Engine

PROC = Path("/proc")


def describe(engine: Engine) -> Machine:
    """This machine; cores, memory and kernel are the engine's where one answers, "none" stands for what is missing."""
    cores, memory_mib, kernel, answered = os.cpu_count() or 1, _memory_mib(), platform.release(), "none"
    try:
        info = engine.info()
        cores, memory_mib = int(info["NCPU"]), int(info["MemTotal"]) >> 20
        kernel, answered = (
            str(info["KernelVersion"]),
            f"{info['ServerVersion']} (cgroup v{info.get('CgroupVersion', '1')})",
        )
    except TestbedUnavailable:
        pass
    try:
        compose = ComposeCommand.find().version
    except MissingPrerequisite:
        compose = "none"
    return Machine(
        hostname=platform.node(),
        cores=cores,
        memory_mib=memory_mib,
        kernel=kernel,
        cpu=_cpu(),
        engine=answered,
        compose=compose,
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
