"""Profiles: how services slow each other down on shared CPUs, measured, kept in a file and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

from framework.bench import Backends, Watch
from framework.config.reading import RECORD_BYTES, read_text
from framework.config.writing import write_text
from framework.errors import FieldName, InputError, MissingPrerequisite, UnknownName
from framework.model import Application, Limits
from framework.model.profiling import STRESSORS, ProfileRequest
from framework.placement.domains import domains_of
from framework.placement.profile import Profile, read_profile
from framework.placement.profiler import Profiler
from framework.placement.schedule import unfinished
from framework.placement.slowdowns import slowdowns
from framework.report.sensitivity import sensitivity_plot
from framework.study.locks import process_lock


class Profiles:
    """Profiles of applications, kept below TAILOR_HOME."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    def path(self, application: Application) -> Path:
        """Return the path where an application's profile is kept by default."""
        return self._backends.home / "profiles" / f"{application.name}.jsonl"

    def kept(self, application: Application) -> Path:
        """Return that path where there is a profile.  Raises MissingPrerequisite."""
        path = self.path(application)
        if not path.is_file():
            raise MissingPrerequisite(
                f"no profile of {application.name} is kept here", f"measure one: tailor profile {application.name}"
            )
        return path

    def unfinished(self, request: ProfileRequest) -> bool:
        """Return whether the profile kept by default is missing, or was interrupted in this very request."""
        application = self._backends.application(request.application)
        path = self.path(application)
        if not path.exists():
            return True
        rate_rps = request.rate_rps or application.workload.rate_rps
        return bool(unfinished(read_profile(read_text(path, RECORD_BYTES), str(path)), request, rate_rps))

    def write_plots(self, profile: Profile) -> Path | None:
        """Draw each service that was measured beside a stressor; returns the figures' directory, None without any."""
        rows = slowdowns(profile.windows)
        directory = self._backends.home / "reports" / f"profile-{profile.about.application}"
        about = (
            f"mean (range: of its blocks) and p95 (hollow) beside stressors, at {profile.about.rate_rps:g} requests/s"
        )
        for service in sorted({row.service for row in rows}):
            write_text(directory / f"{service}.svg", sensitivity_plot(service, rows, about))
        return directory if rows else None

    def run(self, request: ProfileRequest, watch: Watch, path: Path | None = None, *, again: bool = False) -> Profile:
        """Measure what is not in the file yet; ``again``: begin a new file.  Raises InputError, MissingPrerequisite.

        Whatever happens, nothing of it is left running.
        """
        backends = self._backends
        application = self._backends.application(request.application)
        _check(request, application)
        application = replace(application, limits=replace(application.limits, **request.limits))
        kind = next((kind for kind in backends.kinds if kind.colocation is not None), None)
        if kind is None or kind.colocation is None:
            raise MissingPrerequisite("no testbed can move services", "use one that can")
        place, rest = _place_and_rest(domains_of(request.domains, kind.topology(application)))
        target = path or self.path(application)
        kept = None if again or not target.exists() else read_profile(read_text(target, RECORD_BYTES), str(target))
        machine = backends.machine_of(kind.name, application)
        bench = backends.bench(kind.name, application, backends.types_on(machine), watch)
        profiler = Profiler(bench, kind.colocation(), request, place, rest, target)
        profiler.check(kept)
        with process_lock(backends.home, profiler.project):
            bench.testbed.clean(profiler.project)  # a process that was killed may have left a stressor
            try:
                return profiler.whole(kept, asdict(machine))
            finally:
                bench.testbed.clean(profiler.project, data=True)


def _check(request: ProfileRequest, application: Application) -> None:
    """Check a request.  Raises UnknownName; MissingPrerequisite for an application without tracing."""
    if application.tracing is None:
        raise MissingPrerequisite(
            f"{application.name} has no tracing, and a profile is made of the services' spans",
            "say where they are (tracing), or let Tailor add a Jaeger (tracing: {add: jaeger})",
        )
    for kind, names, known in (
        ("limit", request.limits, [field.name for field in fields(Limits)]),
        ("stressor", request.stressors, STRESSORS),
        ("service", request.services, [service.name for service in application.services]),
    ):
        for name in names:
            if name not in known:
                raise UnknownName(kind, name, known)


def _place_and_rest(domains: Sequence[str]) -> tuple[str, str]:
    if len(domains) != 2:
        raise InputError(
            FieldName("domains"), f": found {len(domains)} sets; allowed: two, the service's place and the rest"
        )
    return domains[0], domains[1]
