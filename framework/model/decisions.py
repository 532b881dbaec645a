"""Decisions of a study: each is taken once and recorded, so that a resumed study keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from optimizer.models.effects import Effect
from optimizer.space import Value
from optimizer.transfer import Known


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Lower bounds for services to be tuned, each for the reductions that use it.

    ``share``: of the critical path.  ``path_ms``: mean time on it.  ``cv``: coefficient of variation.  ``importance``:
    of a screened service, as a fraction of the largest.
    """

    share: float = 0.01
    path_ms: float = 1.0
    cv: float = 0.5
    importance: float = 0.1


@dataclass(frozen=True, slots=True)
class Removed:
    """A service that is not tuned, its number of ``parameters``, and the ``reason``, a sentence with the numbers."""

    service: str
    parameters: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduced search space.  ``kept``: services that are tuned.  ``priors``: a weight in (0, 1] for each of them."""

    kind: str  # one of REDUCTIONS
    thresholds: Thresholds
    kept: tuple[str, ...]
    removed: tuple[Removed, ...]
    priors: Mapping[str, float]
    parameters: int  # number, of the services kept
    parameters_before: int


@dataclass(frozen=True, slots=True)
class ImportedResults:
    """Results from elsewhere.  ``source``: a study or a file; ``default``: values of its default configuration."""

    source: str
    default: Mapping[str, Value]
    results: tuple[Known, ...]


@dataclass(frozen=True, slots=True)
class ModelledPoint:
    """A configuration for which a model predicts log(value / the default's value).

    ``values``: only those that differ from the default's.
    """

    values: Mapping[str, Value]
    log_ratio: float


@dataclass(frozen=True, slots=True)
class TransferSource:
    """A study of another application, and the effects that it tells of parameters by their type of server."""

    study: str
    application: str
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """Effects of parameters from other applications.  ``types``: service -> type of server, of this application."""

    types: Mapping[str, str]
    sources: tuple[TransferSource, ...]


@dataclass(frozen=True, slots=True)
class SpaceEdit:
    """An edit of the search space.  Trials up to number ``after`` belong to the old space, with this ``default``.

    ``only``, ``allow_weaker``: of the plan, after the edit.
    """

    after: int
    default: Mapping[str, Value]
    only: tuple[str, ...] = ()
    allow_weaker: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchEnd:
    """The end of a search that stops by itself.  ``trials``: number of configurations that it tried.

    ``gain``: expected of another trial; ``noise``: of the comparison that would have to show it; both are fractions of
    the value.  ``trial_s``: mean duration of a trial [s]; None where it is unknown.
    """

    trials: int
    gain: float
    noise: float
    trial_s: float | None = None


@dataclass(frozen=True, slots=True)
class ExpectedChange:
    """A change of a small recommendation: the parameters ``names`` get one ``value``.

    ``log_ratio``: predicted log(value with it / value without it), negative is better; ``deviation``: its standard
    deviation.  ``risk``: "none", "data" or "memory".
    """

    names: tuple[str, ...]
    value: Value
    log_ratio: float
    deviation: float
    risk: str = "none"


@dataclass(frozen=True, slots=True)
class SmallRecommendation:
    """The few changes that a model of the trials misses, as a configuration (``values``).

    ``full``: the recommendation of the search, without the risky changes that are not among ``changes``.  ``loss``:
    predicted log(value / value of ``full``); ``loss_deviation``: its standard deviation.  Without changes there is no
    small recommendation.
    """

    values: Mapping[str, Value]
    full: Mapping[str, Value]
    changes: tuple[ExpectedChange, ...]
    loss: float = 0.0
    loss_deviation: float = 0.0


@dataclass(frozen=True, slots=True)
class StudyDecisions:
    """All decisions of a study.  None, or empty: not decided, or not requested.

    At its creation: ``initial``, the configuration where the search starts; ``inert``, parameters without an effect in
    the testbed's model; ``history``, results from elsewhere; ``transfer``, effects from studies of other applications.

    While it runs: ``warmup_s``, long enough for the default; ``reduction`` of the search space; ``prior``, predictions
    of the twin; ``iterations``, as many as the time limit allows; ``ended``, where a search stopped by itself;
    ``small``, the few changes that matter most; ``minimal``, configurations that change less still; ``edits`` of the
    space, the oldest first.
    """

    initial: Mapping[str, Value] | None = None
    inert: tuple[str, ...] = ()
    history: tuple[ImportedResults, ...] = ()
    transfer: Transfer | None = None
    warmup_s: float | None = None
    reduction: Reduction | None = None
    prior: tuple[ModelledPoint, ...] | None = None
    iterations: int | None = None
    ended: SearchEnd | None = None
    minimal: tuple[Mapping[str, Value], ...] | None = None
    small: SmallRecommendation | None = None
    edits: tuple[SpaceEdit, ...] = ()

    def edited(self, edit: SpaceEdit) -> StudyDecisions:
        """Return the decisions after an edit of the space, which has to be reduced and searched anew."""
        return replace(self, edits=(*self.edits, edit), reduction=None, ended=None)
