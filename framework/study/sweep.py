"""The rate sweep: the knee of the default configuration, and the rate at which to tune.

The rate is chosen from the default configuration before tuning, at most 60 % of the knee, and then frozen
(measurement.md), so that an optimizer works on queueing and service times and not on a saturated machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from framework.bench import Bench
from framework.controller import Controller
from framework.model import Step, StudyPlan, Sweep, Trial
from framework.model.events import RateMeasured
from framework.model.study import TrialSpec
from optimizer.space import Configuration

SHARE_OF_KNEE = 0.6
ATTEMPTS = 2  # an overloaded application looks disturbed too, so a rate is not tried for long
REFINEMENTS = 2  # bisections between the last rate that held and the first that did not


def sweep(
    bench: Bench,
    study: str,
    plan: StudyPlan,
    default: Configuration,
    *,
    start_rps: float,
    factor: float,
    limit_ms: float,
    maximum_rps: float,
) -> Sweep:
    """Measure the default at rising rates until p95 passes ``limit_ms`` or the application no longer keeps up."""

    def measure(rate_rps: float) -> Step:
        controller = Controller(bench, study, replace(plan, rate_rps=rate_rps), attempts=ATTEMPTS)
        trial = controller.run(TrialSpec(default, "probe", plan.repetitions, label=f"{rate_rps:g}/s"))
        step = _step(rate_rps, trial, limit_ms)
        bench.watch(RateMeasured(step))
        return step

    steps = rising_steps(measure, start_rps=start_rps, factor=factor, maximum_rps=maximum_rps)
    return conclude(bench.application.name, limit_ms, steps, modelled=bench.testbed.modelled)


def rising_steps(
    measure: Callable[[float], Step], *, start_rps: float, factor: float, maximum_rps: float
) -> list[Step]:
    """Measure steps at rising rates until one does not hold, then between it and the last that held."""
    steps = []
    rate = start_rps
    while rate <= maximum_rps:
        steps.append(measure(rate))
        if steps[-1].holds is False:
            break
        rate = round(rate * factor, 1)
    sustained = [step.rate_rps for step in steps if step.holds]
    if sustained and steps[-1].holds is False:
        below, above = sustained[-1], steps[-1].rate_rps
        for _ in range(REFINEMENTS):
            middle = round((below + above) / 2, 1)
            steps.append(measure(middle))
            if steps[-1].holds is None:  # disturbed: it says nothing of this rate, nor of those around it
                break
            below, above = (middle, above) if steps[-1].holds else (below, middle)
    return steps


def _step(rate_rps: float, trial: Trial, limit_ms: float) -> Step:
    measured = [m.quantities["p95"] for m in trial.measurements if not m.invalid and "p95" in m.quantities]
    if trial.value is None or not measured:
        overloaded = any(m.infeasible for m in trial.measurements)
        return Step(rate_rps, None, False if overloaded else None, trial.reason)
    p95 = max(measured, key=lambda estimate: estimate.value)
    holds = p95.value <= limit_ms
    reason = "" if holds else f"p95 above {limit_ms:g} ms"
    return Step(rate_rps, p95, holds, reason)


def conclude(application: str, limit_ms: float, steps: Sequence[Step], *, modelled: bool = False) -> Sweep:
    """Return the sweep with its knee and the proposed rate [requests/s], at most 60 % of the knee."""
    ordered = tuple(sorted(steps, key=lambda step: step.rate_rps))
    sustained = [step.rate_rps for step in ordered if step.holds]
    passed = any(step.holds is False for step in ordered)
    prefix = "modelled: " if modelled else ""
    if not sustained:
        statement = f"{prefix}no rate held; at {ordered[0].rate_rps:g} requests/s: {ordered[0].reason}"
        return Sweep(application, limit_ms, ordered, None, passed, None, statement, modelled)
    knee = max(sustained)
    proposed = float(int(SHARE_OF_KNEE * knee))
    result = "the knee is at" if passed else "no knee found; the highest rate tried is"
    statement = (
        f"{prefix}{result} {knee:g} requests/s (p95 limit {limit_ms:g} ms); tune at {proposed:g} requests/s or less"
    )
    return Sweep(application, limit_ms, ordered, knee, passed, proposed, statement, modelled)
