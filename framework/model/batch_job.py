"""Best-effort (BE) jobs that a guard runs beside a latency-critical service, and their life."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from framework.errors import IllegalTransition


class JobState(Enum):
    """A running job's processes may stand still for a while (frozen); pending: it waits for its next attempt."""

    PENDING = "pending"
    RUNNING = "running"
    FROZEN = "frozen"
    FINISHED = "finished"
    FAILED = "failed"


_LEGAL: Mapping[JobState, frozenset[JobState]] = {
    JobState.PENDING: frozenset({JobState.RUNNING, JobState.FAILED}),
    JobState.RUNNING: frozenset({JobState.FROZEN, JobState.FINISHED, JobState.FAILED, JobState.PENDING}),
    JobState.FROZEN: frozenset({JobState.RUNNING, JobState.FINISHED, JobState.FAILED, JobState.PENDING}),
    JobState.FINISHED: frozenset(),
    JobState.FAILED: frozenset(),
}
LIVE = (JobState.RUNNING, JobState.FROZEN)
ENDED = (JobState.FINISHED, JobState.FAILED)


def check_transition(name: str, old: JobState, new: JobState) -> None:
    """Raise IllegalTransition where a job may not go from one state to another."""
    if new is not old and new not in _LEGAL[old]:
        raise IllegalTransition(f"job {name} is {old.value}; it cannot become {new.value}")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job as its owner states it: a container of an image, or, without one, a command of this machine.

    ``kind``: jobs of one kind suffer and harm alike; a policy may pause a kind.  ``cores``: that it can use at once.
    ``memory_mib``: at most; 0: no limit.  ``network``: none, or the engine's own bridge; host: a command's, which has
    no other.  ``attempts``: that may end badly before it counts as failed.  ``limit_s``: CPU seconds of one attempt;
    0: no limit.  ``demands``: stressor of `tailor profile` -> how many of its threads press on that resource as much as
    the job does.  ``user``, ``directory``: whom a command runs as, and where; empty for a container.
    """

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    kind: str = ""
    cores: float = 1.0
    memory_mib: int = 0
    network: str = "none"
    environment: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    attempts: int = 3
    limit_s: float = 0.0
    demands: Mapping[str, float] = field(default_factory=dict)
    user: str = ""
    directory: str = ""

    @property
    def is_command(self) -> bool:
        """Whether it is a command of this machine, not a container."""
        return not self.image


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A job in the queue.  ``number``: its place; ``attempt``: the number of the last one, 0 before the first;
    ``failures``: attempts that ended badly by themselves: those that a guard broke off do not count.

    ``useful_s``: CPU seconds of the attempt that finished; ``wasted_s``: of those that did not; while it runs,
    ``used_s`` of this attempt.  ``reason``: why it failed, or waits again.
    """

    number: int
    spec: JobSpec
    state: JobState = JobState.PENDING
    attempt: int = 0
    failures: int = 0
    used_s: float = 0.0
    useful_s: float = 0.0
    wasted_s: float = 0.0
    reason: str = ""

    @property
    def container(self) -> str:
        """Name of its attempt, which its container or its control group has: there cannot be two of them."""
        return f"tailor-job-{self.number}-{self.attempt}"


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job's attempt as its runner shows it.  ``status``: exit status; None while it runs.  ``pid``: 0 once ended.

    ``reason``: why it ended, where the status does not say it (killed for its memory).  ``engine_restarted``:
    since it began: the engine may have ended it, or lost its output.
    """

    container: str
    kind: str
    pid: int
    status: int | None
    reason: str = ""
    engine_restarted: bool = False
