"""Load generators of others as one of Tailor's: run, watch the counters meanwhile, and read what they wrote.

Each generator has a file of its own in this folder, which says how it is called and how its results are read.  What a
generator does not tell stays unknown in the LoadResult: when requests were due, its own CPU time, spans.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from framework.errors import InputError, LoadFailed
from framework.load.invocation import Task, Tool, number
from framework.load.registry import GENERATORS
from framework.load.runners import InContainer, OnThisMachine, Runner
from framework.load.usage_samples import UsageSamples
from framework.model import Application, LoadPlan, LoadResult, Running, Usage
from framework.ports.load import LoadGenerator
from framework.ports.side_containers import SideContainers
from framework.ports.testbed import Progress

GRACE_S = 120.0  # beside the load: start, answers to the last requests, results
MOST_FILES, MOST_SCRIPT_BYTES = 1_000, 64 * 2**20  # of a script's directory
SKIPPED = frozenset({".git", "__pycache__", "node_modules", ".venv"})


Made = TypeVar("Made", bound=Callable[[], Tool])


def registered(kind: Made) -> Made:
    """Register a generator, given by its class, under its name."""
    tool = kind()

    def generator(application: Application, containers: SideContainers) -> LoadGenerator:
        return ExternalLoadGenerator(tool, application, containers)

    GENERATORS.register(tool.name)(generator)
    return kind


class ExternalLoadGenerator:
    """A load generator of somebody else; implements ``framework.ports.load.LoadGenerator``."""

    def __init__(
        self, tool: Tool, application: Application, containers: SideContainers, *, grace_s: float = GRACE_S
    ) -> None:
        """Set up the generator.  ``grace_s``: time allowed beyond the load's own."""
        self._tool, self._application, self._containers = tool, application, containers
        self._grace_s = grace_s

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        """Drive the load, with ``usage`` called twice a second, and return every request that the generator reports.

        Raises LoadFailed where it did not end well or its results cannot be read, InputError for a script that cannot
        be run, MissingPrerequisite without its image or program, DeploymentFailed where ``usage`` finds that a service
        has ended.
        """
        if plan.profile:
            raise InputError(f"{self._tool.name} keeps one rate; a rate that changes needs Tailor's own load generator")
        with tempfile.TemporaryDirectory(prefix="tailor-load-") as temporary:
            results, scripts = Path(temporary) / "results", Path(temporary) / "scripts"
            results.mkdir()
            scripts.mkdir()
            runner = self._runner(plan, running, scripts, results)
            files = script_files(self._application)
            script = files.get(Path(self._application.external.script).name, b"")
            target = runner.target(plan.workload.target)
            task = Task(plan, self._application.external, target, runner.scripts, runner.results, script)
            invocation = self._tool.invocation(task)
            invocation = replace(invocation, environment={**variables(task), **invocation.environment})
            progress(f"{self._tool.name} drives the load for {invocation.seconds:g} s")
            samples = UsageSamples(usage)
            try:
                with samples:
                    finished = runner.run(
                        invocation, {**files, **invocation.files}, results, invocation.seconds + self._grace_s
                    )
            except LoadFailed as error:
                if samples.problem is not None:  # it failed because a service had ended
                    raise samples.problem from error
                raise
            if samples.problem is not None:
                raise samples.problem
            progress(f"reading what {self._tool.name} wrote")
            told = self._tool.read(task, finished)
        warmup_s = plan.warmup_s if told.warmup_s is None else told.warmup_s
        window_s = plan.window_s if told.window_s is None else told.window_s
        origin_ns = told.rows.origin_ns()
        if told.timing == "distribution":
            origin_ns -= round(warmup_s * 1e9)
        else:
            told.rows.check_length(origin_ns, warmup_s + window_s, plan.rate_rps)
        result = told.rows.result(origin_ns, warmup_s, window_s)
        start_ns, end_ns = result.edges_ns
        return replace(
            result,
            loop=self._application.loop,
            timing=told.timing,
            usage_before=samples.at(start_ns),
            usage_after=samples.at(end_ns),
        )

    def _runner(self, plan: LoadPlan, running: Running, scripts: Path, results: Path) -> Runner:
        image = self._application.external.image
        if image:
            return InContainer(self._containers, image, running, plan.cpus)
        return OnThisMachine(running, scripts, results)


def variables(task: Task) -> dict[str, str]:
    """Return the environment variables from which scripts know what Tailor wants."""
    parts = urlsplit(task.target)
    return {
        "TAILOR_TARGET": task.target,
        "TAILOR_HOST": parts.hostname or "",
        "TAILOR_PORT": str(parts.port or {"https": 443}.get(parts.scheme, 80)),
        "TAILOR_RATE": number(task.plan.rate_rps),
        "TAILOR_USERS": str(task.load.users),
        "TAILOR_WARMUP_S": number(task.plan.warmup_s),
        "TAILOR_SECONDS": number(task.seconds),
        "TAILOR_SEED": str(task.plan.seed),
    }


def script_files(application: Application) -> dict[str, bytes]:
    """Return the files of the script's directory: path below it -> content.

    Links that lead out of it are left out.  Raises InputError for a directory that is too large to be copied, or that
    a link leads out of the application's.
    """
    if not application.external.script:
        return {}
    root = (application.directory / application.external.script).parent.resolve()
    if not root.is_relative_to(application.directory.resolve()):
        raise InputError(f"load.script: found a directory at {root}; allowed: one below {application.directory}")
    files: dict[str, bytes] = {}
    size = 0
    for directory, names, leaves in os.walk(root):
        names[:] = sorted(name for name in names if name not in SKIPPED)
        for leaf in sorted(leaves):
            path = Path(directory) / leaf
            if not path.is_file() or not path.resolve().is_relative_to(root):
                continue
            size += path.stat().st_size
            if size > MOST_SCRIPT_BYTES or len(files) >= MOST_FILES:
                raise InputError(
                    f"{root} has more than {MOST_FILES} files or {MOST_SCRIPT_BYTES // 2**20} MiB, and all of it goes "
                    f"with {application.external.script}; allowed: a directory of the script's own"
                )
            files[path.relative_to(root).as_posix()] = path.read_bytes()
    return files
