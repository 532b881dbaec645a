"""Description of the machine that the engine runs on, recorded with each result."""

from __future__ import annotations

from dataclasses import replace

from framework.errors import MissingPrerequisite, TestbedUnavailable
from framework.model import Machine
from framework.testbeds.docker.compose_command import ComposeCommand
from framework.testbeds.docker.engine import Engine
from framework.testbeds.host.machine import machine


def describe(engine: Engine) -> Machine:
    """Describe this machine; cores, memory and kernel are the engine's where one answers.

    "none" stands for a missing engine or compose command.
    """
    described = machine()
    try:
        info = engine.info()
        described = replace(
            described,
            cores=int(info["NCPU"]),
            memory_mib=int(info["MemTotal"]) >> 20,
            kernel=str(info["KernelVersion"]),
            engine=f"{info['ServerVersion']} (cgroup v{info.get('CgroupVersion', '1')})",
        )
    except TestbedUnavailable:
        pass
    try:
        return replace(described, compose=ComposeCommand.find().version)
    except MissingPrerequisite:
        return described
