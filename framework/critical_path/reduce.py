"""Reduction of the search space by evidence of traces: the services worth tuning, and the reasons to leave others out.

Four cuts (section 3.2.2 of the paper): the critical path with a threshold on the service time, the variation of the
service time, a list of known bottlenecks, and path and variation combined.  ``screening`` cuts by the effects that
another study measured.  ``soft`` removes nothing and gives each service a prior weight: hard screening can cost the
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
    """Evidence on one service: share of the critical path, mean time on it (ms), variation of its service time."""

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
    """Choose the services to tune.

    ``tunable``: service -> number of its parameters.  ``screened``: service -> importance.

    Raises InputError for an unknown kind or bottleneck, and when nothing would be left to tune.
    """
    if kind not in REDUCTIONS:
        raise FieldError("reduce", kind, ", ".join(REDUCTIONS))
    unknown = sorted(set(bottlenecks) - tunable.keys())
    if unknown:
        raise InputError(f"bottlenecks: found {', '.join(unknown)}; allowed: {', '.join(tunable)}")
    evidence_for = {row.service: row for row in evidence}
    reason_against = _TESTS[kind]
    options = Options(thresholds, bottlenecks, screened or {})
    removed = []
    for service, parameters in tunable.items():
        reason = reason_against(service, evidence_for.get(service), options)
        if reason:
            removed.append(Removed(service, parameters, reason))
    removed_services = {row.service for row in removed}
    kept = tuple(service for service in tunable if service not in removed_services)
    if not kept:
        raise InputError(
            FieldName("reduce"),
            f" {kind} would leave nothing to tune; lower its thresholds: "
            + "; ".join(f"{row.service}: {row.reason}" for row in removed[:3]),
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
    """Average the windows of a trial: the mean over them of each number and of its interval's ends.

    A service has a share of zero in windows where it does not appear.
    """
    by_service: dict[str, list[ServiceTime]] = {}
    for window in windows:
        for time in window:
            by_service.setdefault(time.service, []).append(time)
    return tuple(
        Evidence(
            service=service,
            share=_mean([time.share for time in times], len(windows)),
            path_ms=_mean([time.path_ms for time in times], len(times)),
            cv=_mean([time.cv for time in times], len(times)),
        )
        for service, times in by_service.items()
    )


def _mean(estimates: Sequence[Estimate], windows: int) -> Estimate:
    value, low, high = (sum(getattr(e, end) for e in estimates) / windows for end in ("value", "low", "high"))
    return Estimate(value, low, high, sum(estimate.count for estimate in estimates))


def priors(evidence: Sequence[Evidence], services: Collection[str]) -> Mapping[str, float]:
    """Return each service's weight: its share of the critical path over the largest share, at least ``LEAST_PRIOR``."""
    share = {row.service: row.share.value for row in evidence}
    largest = max((share.get(service, 0.0) for service in services), default=0.0)
    if largest <= 0:
        return dict.fromkeys(services, 1.0)
    return {service: max(LEAST_PRIOR, share.get(service, 0.0) / largest) for service in services}


def alternatives(
    evidence: Sequence[Evidence], tunable: Mapping[str, int], thresholds: Thresholds = THRESHOLDS
) -> tuple[Reduction, ...]:
    """Return the reduction of each cut that needs only traces; a cut that would keep nothing is left out."""
    reductions = []
    for kind in ("critical-path", "variability", "path+variability"):
        with suppress(InputError):
            reductions.append(reduce(kind, evidence, tunable, thresholds=thresholds))
    return tuple(reductions)


def overlap(reductions: Sequence[Reduction]) -> Mapping[tuple[str, str], float]:
    """Return for each pair of kinds the services that both keep, as a fraction of those that either keeps (Jaccard)."""
    kept = {reduction.kind: set(reduction.kept) for reduction in reductions}
    names = list(kept)
    return {
        (first, second): len(kept[first] & kept[second]) / len(kept[first] | kept[second])
        for number, first in enumerate(names)
        for second in names[number + 1 :]
    }


# ------------------------------------------------------------------------------------- one test for each kind


@dataclass(frozen=True, slots=True)
class Options:
    """Input of the tests besides the evidence of traces."""

    thresholds: Thresholds
    bottlenecks: Collection[str]
    screened: Mapping[str, float]


_Test = Callable[[str, Evidence | None, Options], str]
"""Function that returns the reason to remove a service; empty: it stays."""


def _off_path(service: str, evidence: Evidence | None, options: Options) -> str:
    least = options.thresholds
    if evidence is None:
        return "it appears in no trace"
    if evidence.share.value < least.share:
        return f"its share of the critical path is {_percent(evidence.share)}; the threshold is {least.share:.1%}"
    if evidence.path_ms.value < least.path_ms:
        return f"its mean time on the critical path is {_ms(evidence.path_ms)}; the threshold is {least.path_ms:g} ms"
    return ""


def _steady(service: str, evidence: Evidence | None, options: Options) -> str:
    if evidence is None:
        return "it appears in no trace"
    if evidence.cv.value <= options.thresholds.cv:
        return (
            f"its service time has a coefficient of variation of {evidence.cv.value:.2f} "
            f"[{evidence.cv.low:.2f}, {evidence.cv.high:.2f}]; the threshold is {options.thresholds.cv:g}"
        )
    return ""


def _off_path_or_steady(service: str, evidence: Evidence | None, options: Options) -> str:
    return _off_path(service, evidence, options) or _steady(service, evidence, options)


def _unlisted(service: str, evidence: Evidence | None, options: Options) -> str:
    return "" if service in options.bottlenecks else "it is not among the known bottlenecks"


def _unimportant(service: str, evidence: Evidence | None, options: Options) -> str:
    if service not in options.screened:
        return "the screening did not move it"
    part = options.screened[service] / (max(options.screened.values()) or 1.0)
    if part < options.thresholds.importance:
        return f"its effect is {part:.1%} of the largest; the threshold is {options.thresholds.importance:.1%}"
    return ""


def _nothing(service: str, evidence: Evidence | None, options: Options) -> str:
    return ""


_TESTS: Mapping[str, _Test] = {
    "none": _nothing,
    "soft": _nothing,
    "critical-path": _off_path,
    "variability": _steady,
    "path+variability": _off_path_or_steady,
    "bottlenecks": _unlisted,
    "screening": _unimportant,
}


def _percent(estimate: Estimate) -> str:
    return f"{estimate.value:.2%} [{estimate.low:.2%}, {estimate.high:.2%}]"


def _ms(estimate: Estimate) -> str:
    return f"{estimate.value:.3g} ms [{estimate.low:.3g}, {estimate.high:.3g}]"
