"""Runner of best-effort jobs of both kinds: containers of images, and commands of this machine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from framework.model.batch_job import BatchJob, JobSeen
from framework.testbeds.host.thawing_runner import GroupedRunner


class RoutingRunner:
    """Gives each job to the runner of its kind; implements ``framework.testbeds.host.thawing_runner.GroupedRunner``."""

    def __init__(self, images: GroupedRunner, commands: GroupedRunner) -> None:
        self._images, self._commands = images, commands

    def start(self, job: BatchJob) -> None:
        (self._commands if job.spec.is_command else self._images).start(job)

    def look(self) -> Sequence[JobSeen]:
        return [*self._commands.look(), *self._images.look()]

    def processes(self) -> Mapping[str, tuple[str, int]]:
        return {**self._images.processes(), **self._commands.processes()}

    def numbers(self) -> Mapping[str, str]:
        return {**self._images.numbers(), **self._commands.numbers()}

    def save_output(self, container: str, target: Path) -> None:
        (self._commands if container in self._commands.numbers() else self._images).save_output(container, target)

    def remove(self, containers: Collection[str]) -> None:
        """Remove attempts, commands first: these do not need an engine."""
        known = self._commands.numbers()
        for runner, own in ((self._commands, True), (self._images, False)):
            if ending := [container for container in containers if (container in known) is own]:
                runner.remove(ending)
