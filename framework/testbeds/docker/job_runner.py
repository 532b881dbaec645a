"""Best-effort jobs in containers, all in one control group."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from framework.errors import TestbedUnavailable
from framework.model.batch_job import BatchJob, JobSeen
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.engine_start import began_before, engine_start_s
from framework.testbeds.docker.owner import Owner

LABEL, KIND, NUMBER = "tailor.guard", "tailor.guard.kind", "tailor.guard.job"
LOOKS = 3  # at attempts, each while the engine is restarted
MOST_LINES = 10_000  # of a job's output that are kept
SAFE = ("no-new-privileges:true",)


class DockerJobs:
    """Containers in the control group ``parent``; implements ``framework.ports.job_runner.JobRunner``.

    They belong to the guard ``name``: nothing else on the engine is touched.  They have no capabilities, and no network
    unless a job asks for it.
    """

    def __init__(
        self, name: str, parent: str, engine: Engine | None = None, engine_start: Callable[[], float] = engine_start_s
    ) -> None:
        """``engine_start``: tells when the engine was started, see ``engine_start_s``."""
        self._engine, self._parent, self._engine_start = engine or Engine(), parent, engine_start
        self._owner = Owner(LABEL, name)
        self._processes: Mapping[str, tuple[str, int]] = {}
        self._numbers: Mapping[str, str] = {}

    def start(self, job: BatchJob) -> None:
        """Start an attempt.  Raises DeploymentFailed, TestbedUnavailable."""
        about = self._engine.inspect(job.container)
        if about is not None and about["State"]["Status"] != "created":
            return
        spec = job.spec
        host: dict[str, Any] = {
            "cgroup_parent": self._parent,
            "network_mode": spec.network,
            "security_opt": list(SAFE),
            "cap_drop": ["ALL"],
            "oom_score_adj": 1000,  # where memory runs out, the job goes and not the service
            "log_config": {"type": "json-file", "config": {"max-size": "10m", "max-file": "1"}},
        }
        if spec.memory_mib:
            host |= {"mem_limit": spec.memory_mib * 2**20, "memswap_limit": spec.memory_mib * 2**20}
        labels = {KIND: spec.kind or spec.name, NUMBER: str(job.number)}
        self._engine.start(
            spec.image, spec.command, job.container, self._owner, labels, host, environment=dict(spec.environment),
            # An engine that starts ends what runs: without this it waits for a job that takes no notice of SIGTERM, and
            # one that ends well after it would count as finished.
            stop_signal="SIGKILL",
        )  # fmt: skip

    def look(self) -> Sequence[JobSeen]:
        """Return all attempts on the engine.  Raises TestbedUnavailable.

        Where the engine was restarted while it was asked, it is asked again: attempts that it shows as ended well may
        be those that it found dead.
        """
        for _ in range(LOOKS):
            engine_s = self._engine_start()
            seen = self._seen(engine_s)
            if self._engine_start() == engine_s:
                return seen
        raise TestbedUnavailable("the Docker Engine was restarted while it listed jobs")

    def _seen(self, engine_s: float) -> list[JobSeen]:
        seen, processes = [], dict[str, tuple[str, int]]()
        containers = self._engine.containers(str(self._owner))
        self._numbers = {listed.name: listed.id for listed in containers}
        for listed in containers:
            about = self._engine.inspect(listed.id)
            if about is None:
                continue
            state = about["State"]
            runs = state["Status"] in ("running", "paused", "created", "restarting")
            kind = listed.labels.get(KIND, "")
            if runs and state["Pid"]:
                processes[listed.id] = kind, int(state["Pid"])
            reason = "killed: it used more memory than it may" if state.get("OOMKilled") else str(state.get("Error"))
            seen.append(
                JobSeen(
                    listed.name,
                    kind,
                    int(state["Pid"]) if runs else 0,
                    None if runs else int(state["ExitCode"]),
                    "" if runs else reason,
                    not runs and began_before(str(state.get("StartedAt")), engine_s),
                )
            )
        self._processes = processes
        return seen

    def processes(self) -> Mapping[str, tuple[str, int]]:
        """Return container's id -> (kind of its job, its first process), as of the last look."""
        return self._processes

    def numbers(self) -> Mapping[str, str]:
        """Return name of a container -> its id, as of the last look."""
        return self._numbers

    def save_output(self, container: str, target: Path) -> None:
        """Write an attempt's last lines to a file, at once.  Raises TestbedUnavailable."""
        text = self._engine.logs(container, lines=MOST_LINES)
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(target.name + ".new")
        new.write_text(text)
        os.replace(new, target)  # noqa: PTH105

    def remove(self, containers: Collection[str]) -> None:
        """Kill and remove attempts.  Raises TestbedUnavailable, DeploymentFailed."""
        self._engine.remove(containers, self._owner)
