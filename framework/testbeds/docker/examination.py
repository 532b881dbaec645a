"""Examination of this machine for the Docker testbed: the lines of ``tailor doctor``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from framework.compose.safety import Admitted
from framework.compose.tracing_notes import tracing_notes
from framework.errors import MissingPrerequisite, TestbedUnavailable
from framework.model import Application, Finding
from framework.testbeds.docker.agents import missing_agents
from framework.testbeds.docker.compose_command import ComposeCommand
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.inventory import STANDIN

FREE_GIB = 5.0  # for images, snapshots and a few studies


def examine(engine: Engine, home: Path, images: Sequence[str]) -> list[Finding]:
    """Return one finding per ability, in the order in which a study needs them."""
    return [*_engine(engine, images), *_compose(), *_machine(home), *_counters()]


def differences(admitted: Mapping[str, Admitted]) -> Iterator[Finding]:
    """Yield what studies of these applications (by name) refuse to run, leave out and copy."""
    for name, admission in admitted.items():
        for refusal in admission.refused:
            yield Finding(f"{name}: {refusal.place}", "missing", f"refused: {refusal.why}", refusal.remedy, needed=True)
        for note in admission.notes:
            yield Finding(f"{name} in a study", "limited", note, "")


def left_alone(applications: Sequence[Application]) -> Iterator[Finding]:
    """Yield the parameters that cannot be set in files of these applications, and are left alone."""
    for application in applications:
        for name, why in application.unsettable.items():
            yield Finding(f"{application.name}: {name}", "limited", f"left alone: {why}", "add such a line to tune it")


def spans_of(applications: Sequence[Application]) -> Iterator[Finding]:
    """Yield how these applications' spans come about, and the agents that a study fetches first."""
    for application in applications:
        for note in tracing_notes(application):
            yield Finding(f"{application.name}: spans", "limited", note, "")
        for name in missing_agents(application):
            yield Finding(f"{application.name}: agent {name}", "limited", "not here yet", "a study fetches it first")


def _engine(engine: Engine, images: Sequence[str]) -> Iterator[Finding]:
    try:
        info = engine.info()
    except TestbedUnavailable as error:
        remedy = "install and start Docker (Debian: apt-get install docker.io), or set DOCKER_HOST"
        yield Finding("Docker Engine", "missing", str(error), remedy, needed=True)
        return
    yield Finding(
        "Docker Engine", "ok", f"{info['ServerVersion']}, cgroup v{info.get('CgroupVersion', '1')}", needed=True
    )
    here = os.uname().release
    if info["KernelVersion"] == here:
        yield Finding("engine on this machine", "ok", "container addresses can be reached", needed=True)
    else:
        kernels = f"the engine's kernel is {info['KernelVersion']}, this machine's is {here}"
        yield Finding("engine on this machine", "missing", kernels, "run Tailor where the engine runs", needed=True)
    for image in images:
        details = engine.image(image)
        if details is None:
            yield Finding(f"image {image}", "missing", "not on this machine", "make images")
        else:
            standin = (details.get("Config", {}).get("Labels") or {}).get(STANDIN) == "true"
            yield Finding(f"image {image}", "limited" if standin else "ok", "stand-in" if standin else "there")


def _compose() -> Iterator[Finding]:
    try:
        yield Finding("compose", "ok", ComposeCommand.find().version, needed=True)
    except MissingPrerequisite as error:
        yield Finding("compose", "missing", error.missing, "make compose", needed=True)


def _machine(home: Path) -> Iterator[Finding]:
    cores = os.cpu_count() or 1
    if cores < 4:
        shared = f"{cores}: generator, Jaeger and application share them"
        yield Finding("cores", "limited", shared, "4 or more keep the generator on cores of its own")
    else:
        yield Finding("cores", "ok", str(cores))
    free = shutil.disk_usage(home if home.exists() else home.parent).free / 2**30
    if free < FREE_GIB:
        yield Finding("disk", "limited", f"{free:.0f} GiB free at {home}", f"{FREE_GIB:g} GiB are needed")
    else:
        yield Finding("disk", "ok", f"{free:.0f} GiB free at {home}")


def _counters() -> Iterator[Finding]:
    """Yield findings on optional sensors: studies run without them, and results say what was not measured."""
    for what, path, remedy in (
        ("CPU pressure (PSI)", Path("/proc/pressure/cpu"), "a kernel with CONFIG_PSI; pressure is not recorded"),
        ("energy (RAPL)", Path("/sys/class/powercap/intel-rapl"), "hardware that has it; energy is not recorded"),
        ("cache control (resctrl)", Path("/sys/fs/resctrl/schemata"), "hardware that has it"),
        ("hardware counters", Path("/sys/bus/event_source/devices/cpu/caps"), "a machine that exposes its PMU"),
    ):
        if path.exists():
            yield Finding(what, "ok", "there")
        else:
            yield Finding(what, "limited", "not on this machine", remedy)
