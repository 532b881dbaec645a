"""Stressors beside a deployment, in containers on its Docker Engine."""

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
STARTS_IN_S = 10.0  # it fills its memory first
PAUSE_S = 0.25  # it reports once a second


class DockerStressors:
    """Implements ``framework.ports.stressors.Stressors``."""

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine or Engine()

    def check(self) -> None:
        """Raises MissingPrerequisite without the stressor's image."""
        if self._engine.image(IMAGE) is None:
            raise MissingPrerequisite(f"image {IMAGE} is not on this machine", "run `make images`")

    @contextmanager
    def beside(self, running: Running, stressor: Stressor) -> Iterator[Callable[[], Stressed]]:
        """A stressor runs inside the block; what is yielded tells afterwards, and only then, what it did.

        Raises DeploymentFailed where it does not start, or did not run to the end of the block.
        """
        command = ["--kind", stressor.kind, "--threads", str(stressor.threads), "--duty", str(stressor.duty),
                   "--directory", "/"]  # fmt: skip
        labels = {**running.deployment.labels, "tailor.role": "stressor"}
        name = f"{running.deployment.project}-stressor-{uuid.uuid4().hex[:8]}"  # there may be several
        owner = Owner.project(running.deployment.project)
        container = self._engine.start(IMAGE, command, name, owner, labels, stressor.cpus)
        found: list[Stressed] = []
        try:
            before = self._until_it_works(container, stressor)
            yield lambda: found[0]
            found.append(self._done(container, stressor, before))
        finally:
            self._engine.remove([container], owner)

    def _until_it_works(self, container: str, stressor: Stressor) -> int:
        """Returns how often it has reported: the first says how it filled its memory."""
        deadline = time.monotonic() + STARTS_IN_S
        while time.monotonic() < deadline:
            reports = self._reports(container)
            if len(reports) > 1:
                return len(reports)
            if not self._runs(container):
                raise DeploymentFailed(f"the stressor {stressor.kind} ended", log=self._engine.logs(container))
            time.sleep(PAUSE_S)
        raise DeploymentFailed(f"the stressor {stressor.kind} did not start within {STARTS_IN_S:g} s")

    def _done(self, container: str, stressor: Stressor, before: int) -> Stressed:
        if not self._runs(container):
            raise DeploymentFailed(f"the stressor {stressor.kind} ended early", log=self._engine.logs(container))
        whole = self._reports(container)[before:]
        seconds = sum(float(one["seconds"]) for one in whole)
        if not seconds:
            raise DeploymentFailed(f"the stressor {stressor.kind} told nothing")
        return Stressed(sum(float(one["done"]) for one in whole) / seconds, str(whole[0]["unit"]), len(whole))

    def _runs(self, container: str) -> bool:
        return bool(((self._engine.inspect(container) or {}).get("State") or {}).get("Running"))

    def _reports(self, container: str) -> list[Mapping[str, Any]]:
        lines = self._engine.logs(container, lines=100_000).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]
