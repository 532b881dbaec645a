"""Clean-up after studies and profiles whose process was killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framework.bench import Backends
from framework.errors import FieldName, InputError
from framework.study.runner import StudyRunner


@dataclass(frozen=True, slots=True)
class CleanUp:
    """``removed``: names of what was removed.  ``left``: projects of another TAILOR_HOME, which were left alone.
    ``kept``: projects of which the engine keeps something.  ``images``: names of the images that were built here from
    the sources of applications, and that stay.
    """

    removed: Sequence[str]
    left: Sequence[str]
    kept: Sequence[str]
    images: Sequence[str] = ()


def clean_up(
    backends: Backends,
    runner: StudyRunner,
    *,
    seeds: bool = False,
    images: bool = False,
    projects: Sequence[str] = (),
) -> CleanUp:
    """Remove what dead studies and profiles of this TAILOR_HOME left, and with ``seeds`` the kept data.

    ``images``: also the images that were built from the sources of applications.  ``projects``: of another
    TAILOR_HOME, removed too, whether they live there or not; others are left alone.
    Raises InputError for a project that is not there, or is of this TAILOR_HOME; for images while a study runs.
    """
    testbed = backends.manager(backends.types_on(backends.machine()))
    strangers = runner.strangers(testbed)
    for name in projects:
        if name not in strangers:
            allowed = ", ".join(strangers) or "none are there"
            raise InputError(f"{name!r} is not a project of another TAILOR_HOME; allowed: {allowed}")
    if images:
        _check_no_study_runs(backends)
    removed = runner.clean_dead(testbed)
    removed += [resource for name in projects for resource in testbed.clean(name)]
    removed += testbed.clean_datasets() if seeds else []
    for kind in backends.others():
        if kind.manage is not None:  # it has machines, such as the nodes of a swarm
            other = kind.manage({})
            removed += runner.clean_dead(other)
            removed += other.clean_datasets() if seeds else []
    removed += [f"image {name}" for name in backends.builds.remove()] if images and backends.builds is not None else []
    left = [name for name in strangers if name not in projects]
    built = backends.builds.kept() if backends.builds is not None else ()
    return CleanUp(removed, left, runner.kept(testbed, projects), built)


def _check_no_study_runs(backends: Backends) -> None:
    """Raise InputError while a study runs, which may need the images that were built here."""
    running = sorted(study for study, _ in backends.store.leased())
    if running:
        raise InputError(
            FieldName("images"), f": not while a study runs: {', '.join(running)}; allowed: when it has ended"
        )
