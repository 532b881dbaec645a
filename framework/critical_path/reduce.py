"""From what the traces say to a smaller search space: which services are worth tuning, and why not the others.

Four cuts (facts of the paper, section 3.2.2): the critical path with a threshold on the service time, the variation of
the service time, a list of known bottlenecks, path and variation together.  ``screening`` cuts by what an earlier study
found by experiment.  ``soft`` removes nothing and gives each service a prior weight: hard screening can cost the
optimum (TeaStore, arXiv 2512.23494).  Thresholds depend on the load, so all of them are options.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from framework.errors import FieldError, FieldName, InputError
from framework.model import Estimate, ServiceTime
from framework.model.decisions import Reduction, Removed, Thresholds
from framework.model.tune_request import REDUCTIONS

THRESHOLDS = Thresholds()
LEAST_PRIOR = 0.05
"""A service that is not on the path keeps this much of the prior of the one with the largest share."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What traces say of one service: share of the critical path, mean time on it (ms), variation of its time."""

    service: str
    share: Estimate
    path_ms: Estimate
    cv: Estimate


def reduce(
    kind: str,
    evidence: Sequence[Evidence],
    tunable: Mapping[str, int],
    *,
    thresholds: Thresholds = THRESHOLDS,
    bottlenecks: Collection[str] = (),
    screened: Mapping[str, float] | None = None,
) -> Reduction:
    """``tunable``: service -> number of its parameters in the search space.  ``screened``: service -> importance.

    Raises InputError for an unknown kind or bottleneck, and when nothing would be left to tune.
    """
    if kind not in REDUCTIONS:
        raise FieldError("reduce", kind, ", ".join(REDUCTIONS))
    unknown = sorted(set(bottlenecks) - tunable.keys())
    if unknown:
        raise InputError(f"bottlenecks: found {', '.join(unknown)}; allowed: {', '.join(tunable)}")
    known = {one.service: one for one in evidence}
    why_not = _TESTS[kind]
    given = Given(thresholds, bottlenecks, screened or {})
    removed = []
    for service, parameters in tunable.items():
        reason = why_not(service, known.get(service), given)
        if reason:
            removed.append(Removed(service, parameters, reason))
    gone = {one.service for one in removed}
    kept = tuple(service for service in tunable if service not in gone)
    if not kept:
        raise InputError(
            FieldName("reduce"),
            f" {kind} would leave nothing to tune; lower its thresholds: "
            + "; ".join(f"{one.service}: {one.reason}" for one in removed[:3]),
        )
    return Reduction(
        kind=kind,
        thresholds=thresholds,
        kept=kept,
        removed=tuple(removed),
        priors=priors(evidence, kept),
        parameters=sum(tunable[service] for service in kept),
        parameters_before=sum(tunable.values()),
    )


def evidence_of(windows: Sequence[Sequence[ServiceTime]]) -> tuple[Evidence, ...]:
    """What the windows of a trial say together: the mean over them of each number and of its interval's ends.

    A service that appears in some of them only has a share of zero in the others.
    """
    by_service: dict[str, list[ServiceTime]] = {}
    for window in windows:
        for one in window:
            by_service.setdefault(one.service, []).append(one)
    return tuple(
        Evidence(
            service=service,
            share=_mean([one.share for one in found], len(windows)),
            path_ms=_mean([one.path_ms for one in found], len(found)),
            cv=_mean([one.cv for one in found], len(found)),
        )
        for service, found in by_service.items()
    )


def _mean(estimates: Sequence[Estimate], windows: int) -> Estimate:
    value, low, high = (sum(getattr(one, end) for one in estimates) / windows for end in ("value", "low", "high"))
    return Estimate(value, low, high, sum(one.count for one in estimates))


def priors(evidence: Sequence[Evidence], services: Collection[str]) -> Mapping[str, float]:
    """Each service's weight: its share of the critical path relative to the largest, never below a twentieth."""
    share = {one.service: one.share.value for one in evidence}
    largest = max((share.get(service, 0.0) for service in services), default=0.0)
    if largest <= 0:
        return dict.fromkeys(services, 1.0)
    return {service: max(LEAST_PRIOR, share.get(service, 0.0) / largest) for service in services}


def alternatives(
    evidence: Sequence[Evidence], tunable: Mapping[str, int], thresholds: Thresholds = THRESHOLDS
) -> tuple[Reduction, ...]:
    """What each cut that needs nothing but traces would keep; one that would leave nothing is left out."""
    found = []
    for kind in ("critical-path", "variability", "path+variability"):
        with suppress(InputError):
            found.append(reduce(kind, evidence, tunable, thresholds=thresholds))
    return tuple(found)


def overlap(reductions: Sequence[Reduction]) -> Mapping[tuple[str, str], float]:
    """For each pair of kinds: services that both keep, as a fraction of those that either keeps (Jaccard)."""
    kept = {one.kind: set(one.kept) for one in reductions}
    names = list(kept)
    return {
        (first, second): len(kept[first] & kept[second]) / len(kept[first] | kept[second])
        for number, first in enumerate(names)
        for second in names[number + 1 :]
    }


# ------------------------------------------------------------------------------------- one test a kind


@dataclass(frozen=True, slots=True)
class Given:
    """What a test may look at besides the traces."""

    thresholds: Thresholds
    bottlenecks: Collection[str]
    screened: Mapping[str, float]


_Test = Callable[[str, Evidence | None, Given], str]
"""Why a service is removed; empty: it stays."""


def _off_path(service: str, found: Evidence | None, given: Given) -> str:
    least = given.thresholds
    if found is None:
        return "it appears in no trace"
    if found.share.value < least.share:
        return f"its share of the critical path is {_percent(found.share)}; the threshold is {least.share:.1%}"
    if found.path_ms.value < least.path_ms:
        return f"its mean time on the critical path is {_ms(found.path_ms)}; the threshold is {least.path_ms:g} ms"
    return ""


def _steady(service: str, found: Evidence | None, given: Given) -> str:
    if found is None:
        return "it appears in no trace"
    if found.cv.value <= given.thresholds.cv:
        return (
            f"its service time has a coefficient of variation of {found.cv.value:.2f} "
            f"[{found.cv.low:.2f}, {found.cv.high:.2f}]; the threshold is {given.thresholds.cv:g}"
        )
    return ""


def _either(service: str, found: Evidence | None, given: Given) -> str:
    return _off_path(service, found, given) or _steady(service, found, given)


def _unlisted(service: str, found: Evidence | None, given: Given) -> str:
    return "" if service in given.bottlenecks else "it is not among the known bottlenecks"


def _unimportant(service: str, found: Evidence | None, given: Given) -> str:
    if service not in given.screened:
        return "the screening did not move it"
    part = given.screened[service] / (max(given.screened.values()) or 1.0)
    if part < given.thresholds.importance:
        return f"its effect is {part:.1%} of the largest; the threshold is {given.thresholds.importance:.1%}"
    return ""


def _nothing(service: str, found: Evidence | None, given: Given) -> str:
    return ""


_TESTS: Mapping[str, _Test] = {
    "none": _nothing,
    "soft": _nothing,
    "critical-path": _off_path,
    "variability": _steady,
    "path+variability": _either,
    "bottlenecks": _unlisted,
    "screening": _unimportant,
}


def _percent(estimate: Estimate) -> str:
    return f"{estimate.value:.2%} [{estimate.low:.2%}, {estimate.high:.2%}]"


def _ms(estimate: Estimate) -> str:
    return f"{estimate.value:.3g} ms [{estimate.low:.3g}, {estimate.high:.3g}]"
