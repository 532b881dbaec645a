"""What the controller needs from the outside, as protocols.  Only ``framework.bootstrap`` names who provides it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from framework.model import (
    Application,
    Deployment,
    Finding,
    Hook,
    LoadPlan,
    LoadResult,
    Machine,
    Measurement,
    Offer,
    Purpose,
    Running,
    Study,
    StudyPlan,
    StudyState,
    Trial,
    TrialState,
    Usage,
    Verdict,
)
from framework.model.job import IdempotencyKey, Job, Stop
from framework.model.neighbours import Stressed, Stressor, Threads
from framework.model.side_container import Ended, SideContainer
from framework.model.token import Token
from framework.model.spans import SpanTable
from optimizer.models.simulator_prior import Modelled
from optimizer.space import SearchSpace

Progress = Callable[[str], None]
"""Called with a short phrase on each step of something long."""


Screen = Callable[[SearchSpace, float, int, Callable[[int, int], None]], Sequence[Modelled]]
"""What a model of the application says of configurations of a space: at a rate (requests/s), with a seed; told how many
it has asked of how many.
"""


class Testbed(Protocol):
    """Where a deployment is run.  Level-based: it makes what runs equal to what is wanted, from any state."""

    name: str
    modelled: bool  # True: its numbers are modelled, not measured

    def machine(self) -> Machine: ...

    def check(self, application: Application) -> None:
        """Raises MissingPrerequisite (engine, compose, images) with the remedy."""

    def notes(self, application: Application) -> Sequence[str]:
        """What is other in a study than in the user's own deployment, in sentences."""

    def seed(self, application: Application, default: Deployment, progress: Progress) -> None:
        """Fill the volumes once and keep them; does nothing when data of this ``content_hash`` are kept."""

    def deploy(self, deployment: Deployment, progress: Progress) -> Running:
        """Equal state, up, healthy, parameters read back.  Raises DeploymentFailed, ParameterNotApplied."""

    def run_hook(self, running: Running, hook: Hook) -> str:
        """Run a one-shot command; returns its output.  Raises TrialFailed with it on a non-zero exit."""

    def usage(self, running: Running) -> Usage: ...

    def statistics(self, running: Running) -> Mapping[str, Mapping[str, float]]:
        """Hits, misses, evictions, items per service, as far as its type defines them."""

    def alive(self, running: Running) -> None:
        """Raises DeploymentFailed when a container of the deployment is not running any more."""

    def projects(self) -> Collection[str]:
        """Every project of which something is there, whoever's it is."""

    def clean(self, project: str, *, data: bool = False) -> Sequence[str]:
        """Remove what runs for ``project``, with ``data`` its copies of the user's data too; says what was removed."""

    def clean_seeds(self) -> Sequence[str]:
        """Remove the kept data volumes."""

    def examine(self, applications: Sequence[Application]) -> Sequence[Finding]:
        """What this machine can do for this testbed and these applications, what is missing and how to get it."""


class Neighbours(Protocol):
    """Who shares CPUs with whom while a deployment runs."""

    def check(self) -> None:
        """Raises MissingPrerequisite with the remedy."""

    def pin(self, running: Running, cpus: Mapping[str, str]) -> None:
        """Move services to lists of CPUs; they go on running.  Raises DeploymentFailed."""

    def beside(self, running: Running, stressor: Stressor) -> AbstractContextManager[Callable[[], Stressed]]:
        """A stressor runs inside the block; what is yielded tells afterwards what it did.  Raises DeploymentFailed."""

    def threads(self, running: Running) -> Mapping[str, Threads]:
        """Service -> how its threads were scheduled so far; empty where nobody can tell."""

    def memory_mib(self, running: Running) -> Mapping[str, float]:
        """Service -> the memory that it holds, without what the kernel could drop [MiB]; nothing where nobody knows."""

    def without_counters(self) -> str:
        """Why there are no hardware counters; empty where there are."""

    def counted(self, running: Running, service: str) -> AbstractContextManager[Callable[[], Mapping[str, float]]]:
        """The service's hardware counters inside the block, told afterwards; nothing where there are none."""

    def pipeline(
        self, running: Running, service: str
    ) -> AbstractContextManager[Callable[[], Mapping[str, float]]] | None:
        """The shares of the service's pipeline slots inside the block, three levels deep; None: nobody can tell."""


class LoadGenerator(Protocol):
    """Drives the open-loop load and reports every request."""

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        """Calls ``usage`` at the start and the end of the window.  Raises LoadFailed."""


class SideContainers(Protocol):
    """Runs containers beside a deployment, on its network."""

    def has_image(self, name: str) -> bool: ...
    def cores(self) -> int:
        """Of the machine that they run on."""

    def run(self, wanted: SideContainer, each: Callable[[bytes], None]) -> Ended:
        """To its end; ``each`` gets every line of its output as it comes, and nothing of the container is left.

        Raises DeploymentFailed, TestbedUnavailable.
        """


class TraceReader(Protocol):
    """Reads the spans of a window."""

    def created(self, running: Running) -> int | None:
        """Spans that the services created in the window, after their exporters are flushed; None: not counted."""

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        """All spans of traces whose root starts in the window.  Raises TracesMissing."""


class StudyStore(Protocol):
    """Studies, trials and measurements.  Every method is one transaction; raises StoreError's family."""

    def create(self, study: Study) -> None: ...
    def get(self, study: str) -> Study: ...
    def studies(self) -> Sequence[Study]: ...
    def page(
        self,
        limit: int,
        *,
        before: str = "",
        state: StudyState | None = None,
        application: str | None = None,
        optimizer: str | None = None,
        testbed: str | None = None,
    ) -> Sequence[Study]:
        """The newest first."""

    def delete(self, study: str) -> None: ...
    def set_state(self, study: str, state: StudyState, message: str = "") -> None: ...
    def set_best(self, study: str, trial: int) -> None: ...
    def set_plan(self, study: str, plan: StudyPlan) -> None: ...
    def set_space(self, study: str, space: Mapping[str, Any], plan: StudyPlan) -> None:
        """Another search space, with the plan that says since when, in one transaction."""

    def set_verdict(self, study: str, verdict: Verdict | None, rivals: Mapping[str, Verdict]) -> None: ...

    def begin_trial(self, trial: Trial) -> Trial:
        """Records a trial as RUNNING under the next number of its study, which the returned trial carries."""

    def begin_trials(self, wanted: Sequence[Trial], offered: Sequence[Offer] = ()) -> Sequence[Trial]:
        """As begin_trial, several of one study in one transaction.

        With ``offered``, one for each, they are measured elsewhere and offered from the beginning; their study has to
        run.  Raises IllegalTransition.
        """

    def add_measurement(self, study: str, trial: int, measurement: Measurement) -> None: ...

    def finish_trial(self, trial: Trial) -> Trial:
        """RUNNING -> COMPLETED | FAILED | INFEASIBLE | ABORTED, with value, reason, phases, images; no offer any more.

        Raises NotFound, IllegalTransition.
        """

    def finish_trials(
        self, wanted: Sequence[Trial], *, best: int | None = None, offered: bool = False
    ) -> Sequence[Trial]:
        """As finish_trial, several of one study in one transaction: all or none.

        ``best``: the number of the trial that is its study's best from now on.  ``offered``: they were measured
        elsewhere; their study has to run.
        """

    def annotate_trial(self, trial: Trial) -> None:
        """Records phases that end after a trial is finished (tell)."""

    def trials(self, study: str, states: Iterable[TrialState] | None = None) -> Sequence[Trial]: ...

    def numbered(self, study: str, numbers: Sequence[int]) -> Sequence[Trial]:
        """The trials of these numbers that there are, in order, without their measurements."""

    def trial(self, study: str, number: int) -> Trial:
        """One trial with its measurements.  Raises NotFound."""

    def trial_page(
        self,
        study: str,
        after: int,
        limit: int,
        *,
        state: TrialState | None = None,
        purpose: Purpose | None = None,
    ) -> Sequence[Trial]:
        """In order from the one after this number, without their measurements."""

    def add_event(self, study: str, kind: str, data: Mapping[str, Any]) -> int: ...
    def events(self, study: str, after: int = 0) -> Sequence[Mapping[str, Any]]: ...
    def revision(self, study: str) -> tuple[int, int]:
        """(its last event's id, its last measurement's); what is computed of a study is good while this is the same."""

    def acquire(self, study: str, holder: str, seconds: float) -> bool:
        """Take or renew the lease on a study; False when another holder's lease is alive."""

    def release(self, study: str, holder: str) -> None: ...
    def leased(self) -> Sequence[tuple[str, str]]:
        """(study, holder) of every lease that has not run out."""

    def close(self) -> None: ...


class JobQueue(Protocol):
    """Studies that wait for workers.  Every method is one transaction; raises StoreError's family."""

    def put(self, study: str, *, priority: int = 0, owner: str = "", place: str = "") -> None:
        """Let a study wait; a stop that was asked for is taken back.  Raises NotFound, IllegalTransition."""

    def take(self, worker: str, engine: str, seconds: float) -> Job | None: ...
    def done(self, study: str, worker: str | None = None) -> None: ...
    def stopped(self, study: str, worker: str) -> bool:
        """A worker paused a study: it leaves the queue where that is still wanted (True), else it waits again."""

    def stop(self, study: str, how: Stop) -> Job: ...
    def stop_wanted(self, study: str) -> Stop: ...
    def set_progress(self, study: str, progress: Mapping[str, Any]) -> None: ...
    def progress(self, study: str) -> Mapping[str, Any] | None: ...
    def jobs(self) -> Sequence[Job]: ...


class OfferStore(Protocol):
    """Trials that clients measure elsewhere."""

    def stand(self, study: str) -> tuple[StudyState, bool]:
        """The study's state, and whether trials wait whose leases ran out.  Raises NotFound."""

    def take_over(self, study: str, client: str, count: int, seconds: float) -> Sequence[int]:
        """Up to ``count`` trials whose leases ran out are this client's now; their numbers."""

    def renew(self, study: str, client: str, trials: Sequence[int], seconds: float) -> Sequence[int]: ...


class TokenStore(Protocol):
    """Bearer tokens by name; raises StoreError's family."""

    def add(self, name: str, digest: str, scope: Literal["read", "run", "admin"]) -> None: ...
    def remove(self, name: str) -> None: ...
    def tokens(self) -> Sequence[Token]: ...


class LaunchStore(Protocol):
    """New studies with their jobs and idempotency keys.  Every method is one transaction."""

    def made_by(self, key: IdempotencyKey) -> str | None:
        """The study that this key stands for, None where it is new.  Raises InputError after another request."""

    def launch(self, study: Study, job: Job | None, key: IdempotencyKey | None) -> str:
        """Record a study, and let it wait with ``job``; its id, or the id of what the key stands for already."""


class ArtefactStore(Protocol):
    """Large things by content hash: compose documents, mounted files, latency samples, traces."""

    def put(self, data: bytes) -> str: ...
    def get(self, digest: str) -> bytes: ...
    def remove_but(self, referred: Collection[str], before_ns: int) -> int:
        """Remove those that were last put before a time and are not ``referred`` to; returns how many."""


class StudyArchive(Protocol):
    """Whole studies: those that nobody works on any more, and those that come from elsewhere."""

    def restore(self, study: Study, trials: Sequence[Trial], events: Sequence[Mapping[str, Any]]) -> None:
        """Record a study as it was elsewhere, in one transaction.  Raises InputError where there is one of its id."""

    def idle_since(self, at: str) -> Sequence[str]:
        """Studies to which nothing happened after a time (ISO 8601, UTC), and that nobody runs."""

    def forget_samples(self, study: str) -> int:
        """Drop each request's latency and the traces; all that was computed stays.  Returns how many were dropped."""

    def referred(self) -> Collection[str]:
        """Digests of all artefacts that some study refers to."""


class SpanSink(Protocol):
    """Where spans of Tailor's own work go; it never keeps a study waiting, nor fails."""

    def begin(self, study: str, name: str, parent: object | None, attributes: Mapping[str, Any]) -> object: ...
    def end(self, span: object, attributes: Mapping[str, Any], error: str) -> None: ...
    def flush(self) -> None: ...


class Clock(Protocol):
    """Time, so that tests can bend it."""

    def now_ns(self) -> int: ...
    def monotonic(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...
