"""Stressors that run beside a deployment, in containers on its Docker Engine."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from framework.errors import DeploymentFailed, MissingPrerequisite
from framework.model import Running
from framework.model.stressors import Stressed, Stressor
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.owner import Owner

IMAGE = "tailor/stressor:1"
STARTS_IN_S = 10.0  # a stressor fills its memory first
PAUSE_S = 0.25  # a stressor reports once a second


class DockerStressors:
    """Stressors in containers; implements ``framework.ports.stressors.Stressors``."""

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine or Engine()

    def check(self) -> None:
        """Check that the stressor's image is here.  Raises MissingPrerequisite."""
        if self._engine.image(IMAGE) is None:
            raise MissingPrerequisite(f"image {IMAGE} is not on this machine", "run `make images`")

    @contextmanager
    def stress(self, running: Running, stressor: Stressor) -> Iterator[Callable[[], Stressed]]:
        """Run a stressor inside the block; the yielded callable returns its work, after the block only.

        Raises DeploymentFailed where it does not start, or did not run to the end of the block.
        """
        command = ["--kind", stressor.kind, "--threads", str(stressor.threads), "--duty", str(stressor.duty),
                   "--directory", "/"]  # fmt: skip
        labels = {**running.deployment.labels, "tailor.role": "stressor"}
        name = f"{running.deployment.project}-stressor-{uuid.uuid4().hex[:8]}"  # there may be several
        owner = Owner.project(running.deployment.project)
        host = {"network_mode": "none", "cpuset_cpus": stressor.cpus or None}
        container = self._engine.start(IMAGE, command, name, owner, labels, host)
        results: list[Stressed] = []
        try:
            before = self._wait_until_working(container, stressor)
            yield lambda: results[0]
            results.append(self._result(container, stressor, before))
        finally:
            self._engine.remove([container], owner)

    def _wait_until_working(self, container: str, stressor: Stressor) -> int:
        """Wait for the second report (the first covers filling the memory); returns the number of reports so far."""
        deadline = time.monotonic() + STARTS_IN_S
        while time.monotonic() < deadline:
            reports = self._reports(container)
            if len(reports) > 1:
                return len(reports)
            if not self._runs(container):
                raise DeploymentFailed(f"the stressor {stressor.kind} ended", log=self._engine.logs(container))
            time.sleep(PAUSE_S)
        raise DeploymentFailed(f"the stressor {stressor.kind} did not start within {STARTS_IN_S:g} s")

    def _result(self, container: str, stressor: Stressor, before: int) -> Stressed:
        """Sum the reports after the first ``before``.  Raises DeploymentFailed."""
        if not self._runs(container):
            raise DeploymentFailed(f"the stressor {stressor.kind} ended early", log=self._engine.logs(container))
        reports = self._reports(container)[before:]
        seconds = sum(float(report["seconds"]) for report in reports)
        if not seconds:
            raise DeploymentFailed(f"the stressor {stressor.kind} reported nothing")
        done = sum(float(report["done"]) for report in reports)
        return Stressed(done / seconds, str(reports[0]["unit"]), len(reports))

    def _runs(self, container: str) -> bool:
        return bool(((self._engine.inspect(container) or {}).get("State") or {}).get("Running"))

    def _reports(self, container: str) -> list[Mapping[str, Any]]:
        lines = self._engine.logs(container, lines=100_000).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]
