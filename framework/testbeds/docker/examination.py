"""Examination of this machine for the Docker testbed: the lines of ``tailor doctor``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from framework.compose.safety import Admitted
from framework.compose.tracing_notes import tracing_notes
from framework.errors import InputError, MissingPrerequisite, TestbedUnavailable
from framework.model import Application, Finding
from framework.testbeds.docker.agents import missing_agents
from framework.testbeds.docker.builds import Build, is_built
from framework.testbeds.docker.compose_command import ComposeCommand
from framework.testbeds.docker.document import completed_first, is_restarted
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.generators import GENERATOR, external_loads, generator_images
from framework.testbeds.docker.images import Source, remedy_of, sources_of
from framework.testbeds.docker.power_findings import power_sources
from framework.testbeds.docker.standins import is_labelled, standins

FREE_GIB = 5.0  # for images, snapshots and a few studies


def examine(
    engine: Engine,
    home: Path,
    applications: Sequence[Application],
    admitted: Mapping[str, Admitted],
    allowed: Collection[str],
) -> list[Finding]:
    """Return one finding per ability, in the order in which a study needs them; then what it does with applications.

    ``admitted``: application's name -> the check of its compose file.  ``allowed``: the operator's exceptions.
    """
    images = {
        image: Source("", remedy_of(image, ours=image == GENERATOR)) for image in sorted(generator_images(applications))
    }
    for application in applications:
        images |= sources_of(application, admitted[application.name].document)
    return [
        *_engine(engine, images),
        *_compose(),
        *_machine(home),
        *_counters(),
        *power_sources(),
        *differences(admitted),
        *builds(applications),
        *restarts(admitted),
        *own_parameters(applications),
        *left_alone(applications),
        *spans_of(applications),
        *external_loads(applications, allowed),
    ]


def differences(admitted: Mapping[str, Admitted]) -> Iterator[Finding]:
    """Yield what studies of these applications (by name) refuse to run, leave out and copy."""
    for name, admission in admitted.items():
        for refusal in admission.refused:
            yield Finding(f"{name}: {refusal.place}", "missing", f"refused: {refusal.why}", refusal.remedy, needed=True)
        for note in admission.notes:
            yield Finding(f"{name} in a study", "limited", note, "")


def builds(applications: Sequence[Application]) -> Iterator[Finding]:
    """Yield the images that a study builds from sources, and why it would not."""
    for application in applications:
        for service, entry in application.compose["services"].items():
            if not entry.get("build"):
                continue
            what = f"{application.name}: {service}"
            try:
                build = Build.of(application, service)
            except InputError as error:
                yield Finding(what, "missing", f"refused: {error}", "name an image instead", needed=True)
                continue
            sources = f"{build.context} ({build.dockerfile})"
            if not build.context.is_dir():
                yield Finding(what, "missing", f"refused: there is no {build.context}", "put it there", needed=True)
            elif not build.is_inside(application.roots):
                allowed = ", ".join(map(str, application.roots))
                yield Finding(
                    what, "missing", f"refused: built from {sources}", f"move it below {allowed}", needed=True
                )
            elif shutil.which("docker") is None:
                yield Finding(what, "missing", f"built from {sources}", "install Docker's command", needed=True)
            else:
                how = "built only where it cannot be pulled" if not is_built(entry["image"]) else "built"
                yield Finding(what, "ok", f"{how}, from {sources}, as {entry['image']}; nothing there is changed")


def restarts(admitted: Mapping[str, Admitted]) -> Iterator[Finding]:
    """Yield the services that the engine starts again where they fail, and those that others wait for to end."""
    for name, admission in admitted.items():
        services = admission.document["services"]
        restarted = [service for service, body in services.items() if is_restarted(body)]
        if restarted:
            why = "may fail and be started again until all is ready, as their file says; not while they are measured"
            yield Finding(f"{name} in a study", "ok", f"{', '.join(restarted)}: {why}")
        ending = sorted({other for body in services.values() for other in completed_first(body)})
        if ending:
            yield Finding(f"{name} in a study", "ok", f"{', '.join(ending)}: run to their end, before what needs them")


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


def own_parameters(applications: Sequence[Application]) -> Iterator[Finding]:
    """Yield the parameters that applications define themselves, with their values of today."""
    for application in applications:
        for service in application.services:
            for parameter in service.parameters if service.tuned else ():
                name = f"{service.name}.{parameter.name}"
                if parameter.name in service.fixed or name in application.unsettable:
                    continue
                present = application.present.get(name)
                today = f"{parameter.default} by default" if present is None else f"{present.value} in {present.where}"
                yield Finding(f"{application.name}: {name}", "ok", f"tuned by {parameter.apply.shown}; {today}")


def _engine(engine: Engine, images: Mapping[str, Source]) -> Iterator[Finding]:
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
    details = {image: about for image in sorted(images) if (about := engine.image(image)) is not None}
    made = standins(engine, details.values())
    for image, source in sorted(images.items()):
        yield _image(image, source, details.get(image), made)


def _image(image: str, source: Source, about: Mapping[str, Any] | None, made: Collection[str]) -> Finding:
    if about is None:
        if source.built:
            return Finding(f"image {image}", "limited", f"not built yet (service {source.service})", source.remedy)
        needed_by = f" (service {source.service})" if source.service else ""
        return Finding(f"image {image}", "missing", f"not on this machine{needed_by}", source.remedy)
    if about["Id"] in made:
        return Finding(f"image {image}", "limited", "a stand-in, built here from packages; its tag is the true version")
    return Finding(f"image {image}", "ok", "there, on a stand-in's base" if is_labelled(about) else "there")


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
        ("cache control (resctrl)", Path("/sys/fs/resctrl/schemata"), "hardware that has it"),
        ("hardware counters", Path("/sys/bus/event_source/devices/cpu/caps"), "a machine that exposes its PMU"),
    ):
        if path.exists():
            yield Finding(what, "ok", "there")
        else:
            yield Finding(what, "limited", "not on this machine", remedy)
