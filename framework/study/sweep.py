"""The rate sweep: the knee of the default configuration, and the rate at which to tune.

The rate is chosen from the default configuration before tuning, at most 60 % of the knee, and then frozen
(measurement.md), so that an optimizer works on queueing and service times and not on a saturated machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from framework.bench import Bench
from framework.controller import Controller
from framework.errors import Interrupted, LeaseLost
from framework.model import EXTERNAL_GENERATORS, Application, Estimate, Step, StudyPlan, Sweep, Trial
from framework.model.events import RateMeasured
from framework.model.study import TrialSpec
from optimizer.space import Configuration

SHARE_OF_KNEE = 0.6
ATTEMPTS = 2  # an overloaded application looks disturbed too, so a rate is not tried for long
REFINEMENTS = 2  # bisections between the last rate that held and the first that did not
LOWER_RATES = 3  # halvings of the first rate, where it does not hold
LEAST_LIMIT_MS = 50.0
LIMIT_OVER_FIRST = 3.0  # without a limit: times p95 at the first rate that was answered
DISTURBED = 3  # rates in a row that say nothing, after which higher ones are not tried


def sweep(
    bench: Bench,
    study: str,
    plan: StudyPlan,
    default: Configuration,
    *,
    start_rps: float,
    factor: float,
    limit_ms: float | None,
    maximum_rps: float,
) -> Sweep:
    """Measure the default at rising rates until p95 passes ``limit_ms`` or the application no longer keeps up.

    ``limit_ms``: None for LIMIT_OVER_FIRST times p95 at the first rate that was answered, at least LEAST_LIMIT_MS.
    Stopped by Ctrl-C or a signal, it concludes from the rates that were measured; where there are none, it raises.
    """
    steps: list[Step] = []

    def measure(rate_rps: float) -> Step:
        nonlocal limit_ms
        controller = Controller(bench, study, replace(plan, rate_rps=rate_rps), attempts=ATTEMPTS)
        trial = controller.run(TrialSpec(default, "probe", plan.repetitions, label=f"{rate_rps:g}/s"))
        p95 = p95_of(trial)
        if limit_ms is None and p95 is not None:
            limit_ms = max(LEAST_LIMIT_MS, round(LIMIT_OVER_FIRST * p95.value))
        step = step_of(rate_rps, trial, p95, limit_ms or LEAST_LIMIT_MS)
        bench.watch(RateMeasured(step))
        return step

    modelled, stopped = bench.testbed.modelled, False
    try:
        for step in rising_steps(
            measure,
            start_rps=start_rps,
            factor=factor,
            maximum_rps=maximum_rps,
            confirm=not modelled,
            digits=rate_digits(bench.application),
        ):
            steps.append(step)
    except (KeyboardInterrupt, Interrupted) as error:
        if not steps or isinstance(error, LeaseLost):
            raise
        stopped = True
    return conclude(bench.application.name, limit_ms or LEAST_LIMIT_MS, steps, modelled=modelled, stopped=stopped)


def rising_steps(
    measure: Callable[[float], Step],
    *,
    start_rps: float,
    factor: float,
    maximum_rps: float,
    confirm: bool = False,
    refinements: int = REFINEMENTS,
    digits: int = 1,
) -> Iterator[Step]:
    """Yield steps at rising rates until one does not hold, then between it and the last that held.

    ``confirm``: a rate that does not hold is measured again, and the second time counts, unless it is disturbed: one
    bad window of a shared machine is no knee.  Where the first rate does not hold, lower ones are tried.
    ``refinements``: bisections between a rate that held and one that did not.  ``digits``: of the rates, after the
    point.
    """

    def measured(rate_rps: float) -> Step:
        step = measure(rate_rps)
        if step.holds is False and confirm:
            again = measure(rate_rps)
            return step if again.holds is None else again
        return step

    rate, highest, disturbed = start_rps if digits else max(1.0, round(start_rps)), None, 0
    while rate <= maximum_rps and disturbed < DISTURBED:
        step = measured(rate)
        yield step
        if step.holds is False:
            if highest is None:
                yield from _falling(measured, rate, refinements, digits)
            else:
                yield from _between(measured, highest, rate, refinements, digits)
            return
        disturbed = disturbed + 1 if step.holds is None else 0
        highest = rate if step.holds else highest
        rate = max(round(rate * factor, digits), round(rate + 10.0**-digits, digits))


def rate_digits(application: Application) -> int:
    """Return how many digits after the point an application's load generator takes of a rate."""
    generator = EXTERNAL_GENERATORS.get(application.generator)
    return 0 if generator is not None and generator.whole_rates else 1


def _falling(measure: Callable[[float], Step], above: float, refinements: int, digits: int) -> Iterator[Step]:
    """Yield steps at halves of a rate that did not hold until one holds, then between the two.

    A disturbed one says nothing: it is halved too.
    """
    for _ in range(LOWER_RATES):
        rate = round(above / 2, digits)
        if rate < 1:
            return
        step = measure(rate)
        yield step
        if step.holds:
            yield from _between(measure, rate, above, refinements, digits)
            return
        above = rate


def _between(
    measure: Callable[[float], Step], below: float, above: float, refinements: int, digits: int
) -> Iterator[Step]:
    """Yield bisections between a rate that held and one that did not."""
    for _ in range(refinements):
        middle = round((below + above) / 2, digits)
        if middle in (below, above):
            return
        step = measure(middle)
        yield step
        if step.holds is None:  # disturbed: it says nothing of this rate, nor of those around it
            return
        below, above = (middle, above) if step.holds else (below, middle)


def p95_of(trial: Trial) -> Estimate | None:
    """Return the highest p95 of a trial's repetitions; None where it has none that counts."""
    measured = [m.quantities["p95"] for m in trial.measurements if not m.invalid and "p95" in m.quantities]
    return None if trial.value is None else max(measured, key=lambda estimate: estimate.value, default=None)


def step_of(rate_rps: float, trial: Trial, p95: Estimate | None, limit_ms: float) -> Step:
    """Return the step that a trial at a rate is; ``p95``: of the trial."""
    if p95 is None:
        overloaded = any(m.infeasible for m in trial.measurements)
        return Step(rate_rps, None, False if overloaded else None, trial.reason)
    holds = p95.value <= limit_ms
    return Step(rate_rps, p95, holds, "" if holds else f"p95 above {limit_ms:g} ms")


def conclude(
    application: str, limit_ms: float, steps: Sequence[Step], *, modelled: bool = False, stopped: bool = False
) -> Sweep:
    """Return the sweep with its knee and the proposed rate [requests/s], at most 60 % of the knee.

    ``stopped``: before its end; the proposal is then one from the rates that were measured.
    """
    ordered = tuple(sorted(steps, key=lambda step: step.rate_rps))
    sustained = [step.rate_rps for step in ordered if step.holds]
    failed = [step.rate_rps for step in ordered if step.holds is False]
    prefix = ("modelled: " if modelled else "") + ("stopped before its end: " if stopped else "")
    if not sustained:
        statement = f"{prefix}no rate held; {_why_none(ordered, limit_ms)}"
        return Sweep(application, limit_ms, ordered, None, bool(failed), None, statement, modelled, stopped)
    knee = max(sustained)
    proposed = _whole(SHARE_OF_KNEE * knee)
    above = next((step for step in ordered if step.holds is False and step.rate_rps > knee), None)
    # What fails for another reason than load fails at low rates too, by chance: then this is no knee.
    why = f"; at {above.rate_rps:g}: {above.reason}" if above is not None and above.p95 is None else ""
    result = "the knee is at" if above else "no knee found; the highest rate that held is"
    statement = (
        f"{prefix}{result} {knee:g} requests/s (p95 limit {limit_ms:g} ms{why}); "
        f"tune at {proposed:g} requests/s or less"
    )
    return Sweep(application, limit_ms, ordered, knee, bool(failed), proposed, statement, modelled, stopped)


def _whole(rate_rps: float) -> float:
    """Round a rate down to a whole number, where that leaves something of it."""
    return float(int(rate_rps)) if rate_rps >= 10 else round(rate_rps, 1)


def _why_none(steps: Sequence[Step], limit_ms: float) -> str:
    """Say why no rate of a sweep held, and what to do."""
    if all(step.holds is None for step in steps):
        return f"every window was disturbed ({steps[0].reason}): quieten the machine, or widen that limit"
    lowest = next(step for step in steps if step.holds is False)
    disturbed = [step for step in steps if step.holds is None]
    if disturbed:
        return (
            f"at {lowest.rate_rps:g} requests/s: {lowest.reason}; lower rates were disturbed ({disturbed[0].reason}): "
            "quieten the machine, or widen that limit"
        )
    if lowest.p95 is None:
        return f"at {lowest.rate_rps:g} requests/s: {lowest.reason}; begin at a lower rate"
    return (
        f"at {lowest.rate_rps:g} requests/s p95 is {lowest.p95.value:.0f} ms already: allow more than "
        f"{limit_ms:g} ms, or begin at a lower rate"
    )
