"""Measurement of a node: rate sweeps of an application on rising numbers of cores, each up to its knee.

The first sweep starts at a low rate.  What a request takes of the CPUs there tells about where the knee is, so that
most windows are near it; each further size starts from the knee of the size before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from framework.bench import Bench
from framework.controller import Controller
from framework.model import (
    EXTERNAL_GENERATORS,
    Application,
    LoadPlan,
    LoadResult,
    Running,
    Step,
    StudyPlan,
    Sweep,
    Trial,
    Usage,
    Workload,
)
from framework.model.cpus import read_cpus
from framework.model.events import RateMeasured
from framework.model.measurement import cpu_us_per_request
from framework.model.node_measurement import Arm, Kind, NodeMeasurement, NodePoint
from framework.model.study import TrialSpec
from framework.ports.host_counters import HostCounters
from framework.ports.load import LoadGenerator
from framework.ports.testbed import Progress
from framework.study.core_places import NodePlace
from framework.study.sweep import ATTEMPTS, conclude, p95_of, rising_steps, step_of
from optimizer.space import Configuration

WINDOWS = 3  # of each size in a closed loop
MOST_CPUS = 4096  # of any machine
GENERATOR_MOST = 0.9  # of its CPUs: a load generator that keeps more of them busy may itself be what limits the rate
LATE = 0.1  # of the limit of p95: a load generator with CPUs of its own that is later may itself be what passes it
SERVICES_LEAST = 0.5  # of their CPUs: services that are less busy beside a busy load generator tell too little
BELOW_KNEE = 0.6  # of the expected knee: the first rate of a sweep
MIB = 2**20


@dataclass(frozen=True, slots=True)
class NodeCase:
    """One sweep to make."""

    arm: Arm
    kind: Kind
    cores: int
    run: int

    def is_of(self, point: NodePoint) -> bool:
        return (point.arm, point.kind, point.cores, point.run) == (self.arm, self.kind, self.cores, self.run)

    def __str__(self) -> str:
        arm = "" if self.arm == "default" else f"{self.arm}, "
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"{arm}{self.kind} on {cores}"


@dataclass(frozen=True, slots=True)
class Reading:
    """A window at one rate, and what a request took in it; see NodePoint.

    ``generator_cores``: kept busy by it, of those that the services may use; None where that is not known.
    ``unusable``: why the window says nothing of the application, though it may have held; empty where it does.
    ``most_rps``: what the services' CPUs would have allowed, where those of the load generator were busy too.
    """

    step: Step
    cpu_s: dict[str, float] = field(default_factory=dict)
    generator_s: float | None = None
    generator_cores: float | None = 0.0
    memory_bytes: dict[str, float] = field(default_factory=dict)
    received_bytes: float | None = None
    sent_bytes: float | None = None
    unusable: str = ""
    most_rps: float | None = None


Probe = Callable[[float], Reading]
"""Rate [requests/s] -> the window there."""


def cases(node: NodeMeasurement, cores: Sequence[int], runs: int) -> list[NodeCase]:
    """Return the sweeps that a measurement lacks: size by size, the arms of each in turn first."""
    arms: list[Arm] = ["default"] if "tuned" not in node.configurations else ["default", "tuned"]
    kinds: list[Kind] = [kind for kind in ("requests", "reads", "writes") if kind in node.kinds]
    wanted = [
        NodeCase(arm, kind, size, run)
        for run in range(runs)
        for place, size in enumerate(sorted(set(cores)))
        for kind in kinds
        for arm in (arms if (place + run) % 2 == 0 else arms[::-1])
    ]
    return [case for case in wanted if not any(map(case.is_of, node.points))]


def measured_node(
    node: NodeMeasurement,
    wanted: Sequence[NodeCase],
    probe_of: Callable[[NodeCase], Probe],
    *,
    start_rps: float,
    maximum_rps: float,
    keep: Callable[[NodeMeasurement], object],
    begin: Callable[[NodeCase], None] = lambda case: None,
    digits: int = 1,
) -> NodeMeasurement:
    """Make the sweeps, one after the other; ``keep`` is given all points after each, so that none is made twice.

    ``digits``: of the rates, after the point.
    """
    for case in wanted:
        begin(case)
        expected = _expected_rps(node.points, case)
        point = swept(node, case, probe_of(case), start_rps, expected, maximum_rps, digits)
        node = replace(node, points=(*node.points, point))
        keep(node)
    return node


def swept(
    node: NodeMeasurement,
    case: NodeCase,
    probe: Probe,
    start_rps: float,
    expected_rps: float | None,
    maximum_rps: float,
    digits: int = 1,
) -> NodePoint:
    """Raise the rate to the knee of one size; return its point."""
    if node.closed_loop:
        return _saturated(case, [probe(start_rps) for _ in range(WINDOWS)])
    readings: list[Reading] = []
    start_rps = max(1.0, round(start_rps, digits))

    def measure(rate_rps: float) -> Step:
        readings.append(probe(rate_rps))
        return readings[-1].step

    def rising(first_rps: float) -> Iterator[Step]:
        for step in rising_steps(
            measure, start_rps=first_rps, factor=node.factor, maximum_rps=maximum_rps,
            confirm=not node.modelled, refinements=node.refinements, digits=digits,
        ):  # fmt: skip
            yield step
            if readings[-1].unusable:
                return  # nor do higher rates say anything

    steps: list[Step] = []
    if expected_rps is None:
        steps.append(measure(start_rps))
        busy_s = sum(readings[0].cpu_s.values())
        expected_rps = case.cores / busy_s if steps[0].holds and busy_s > 0 else None
        start_rps *= node.factor if steps[0].holds else 0.5
    first_rps = start_rps if expected_rps is None else BELOW_KNEE * expected_rps
    first_rps = max(1.0, round(first_rps, digits))
    if not readings or not readings[-1].unusable:
        steps += rising(first_rps)
    sweep = conclude(node.application, node.limit_ms, steps, modelled=node.modelled)
    return _point(case, sweep, readings)


def _expected_rps(points: Sequence[NodePoint], case: NodeCase) -> float | None:
    """Return where the knee may be: from that of the nearest size of this kind, whichever the arm; None without one.

    A rate above which nothing was too high is no knee.
    """
    known = [point for point in points if point.kind == case.kind and point.above_rps is not None]
    near = min(known, key=lambda point: (abs(point.cores - case.cores), point.arm != case.arm), default=None)
    return None if near is None or near.knee_rps is None else near.knee_rps * case.cores / near.cores


def _point(case: NodeCase, sweep: Sweep, readings: Sequence[Reading]) -> NodePoint:
    knee = sweep.knee_rps
    above = min(
        (step.rate_rps for step in sweep.steps if step.holds is False and step.rate_rps > (knee or 0)), default=None
    )
    says_nothing = next((reading.step for reading in readings if reading.unusable), None)
    if says_nothing is None and knee is not None and above is None:
        says_nothing = next((step for step in sweep.steps if step.holds is None and step.rate_rps > knee), None)
    if says_nothing is not None:
        at_least = "" if knee is None else f"; the application answers {knee:g} requests/s at least"
        why = f"no knee: at {says_nothing.rate_rps:g} requests/s {says_nothing.reason}{at_least}"
        return _without_knee(case, why)
    if knee is None:
        return _without_knee(case, sweep.statement)
    at = next(reading for reading in readings if reading.step.rate_rps == knee and reading.step.holds)
    return _point_of(case, at, knee, above, sweep.statement)


def _without_knee(case: NodeCase, statement: str) -> NodePoint:
    return NodePoint(case.arm, case.kind, case.cores, case.run, None, None, statement=statement)


def _point_of(case: NodeCase, at: Reading, knee_rps: float, above_rps: float | None, statement: str) -> NodePoint:
    if at.generator_cores is None:
        return _without_knee(case, "no knee: the load generator shared the cores; what it took of them is not known")
    if at.generator_cores >= GENERATOR_MOST * case.cores:
        busy = f"{at.generator_cores:.1f} of the {case.cores} cores busy, which it shared"
        return _without_knee(case, f"no knee: the load generator kept {busy}")
    return NodePoint(
        arm=case.arm,
        kind=case.kind,
        cores=case.cores,
        run=case.run,
        knee_rps=knee_rps,
        above_rps=above_rps,
        generator_cores=at.generator_cores,
        cpu_s=at.cpu_s,
        generator_s=at.generator_s,
        memory_bytes=at.memory_bytes,
        received_bytes=at.received_bytes,
        sent_bytes=at.sent_bytes,
        statement=statement,
    )


def _saturated(case: NodeCase, readings: Sequence[Reading]) -> NodePoint:
    """Return the point of windows that each have the most that can be answered: the least and the most of them."""
    usable = (reading for reading in readings if reading.step.holds and not reading.unusable)
    counted = sorted(usable, key=lambda reading: reading.step.rate_rps)
    if not counted:
        why = "; ".join(dict.fromkeys(reading.unusable or reading.step.reason for reading in readings))
        return _without_knee(case, f"no window counts: {why}")
    least, most, middle = counted[0], counted[-1], counted[len(counted) // 2]
    above = max(most.step.rate_rps, *(reading.most_rps or 0.0 for reading in counted))
    statement = f"{len(counted)} windows of a closed loop, {least.step.rate_rps:g} to {most.step.rate_rps:g} requests/s"
    if above > most.step.rate_rps:
        statement += f"; the load generator was busy too, and the services' CPU time allows up to {above:.5g}"
    return _point_of(case, middle, least.step.rate_rps, above if above > least.step.rate_rps else None, statement)


# ---------------------------------------------------------------------- on a testbed


class CountedLoad:
    """A load generator on stated CPUs, with what it used itself, and the services' memory and network in its run.

    ``busy_cpus``: hardware threads that it kept busy in the window; None where that is not known.
    """

    def __init__(self, load: LoadGenerator, counters: HostCounters | None, cpus: str) -> None:
        self._load, self._counters, self._cpus = load, counters, cpus
        self.busy_cpus: float | None = None
        self.memory_bytes: dict[str, float] = {}
        self.received_bytes: dict[str, float] = {}
        self.sent_bytes: dict[str, float] = {}

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        """Drive the load; afterwards the attributes have memory, and bytes per request of the whole run."""
        counters = self._counters
        self.busy_cpus = None
        before = counters.network_bytes(running) if counters is not None else {}
        result = self._load.run(replace(plan, cpus=self._cpus), running, usage, progress)
        self.busy_cpus = _busy_cpus(result)
        if counters is not None:
            self.memory_bytes = {name: mib * MIB for name, mib in counters.memory_mib(running).items()}
        if counters is not None and result.timing != "distribution":  # of its calibration it tells no requests
            requests = max(1, len(result.due_ns))
            after = counters.network_bytes(running)
            both = [name for name in after if name in before]
            self.received_bytes = {name: (after[name][0] - before[name][0]) / requests for name in both}
            self.sent_bytes = {name: (after[name][1] - before[name][1]) / requests for name in both}
        return result


def _busy_cpus(load: LoadResult) -> float | None:
    """Return the hardware threads that a generator kept busy in the window; None where that is not known.

    Where it does not tell its CPU time, that of all processes but the services counts as its own.
    """
    if load.cpu_s is not None:
        return load.cpu_s / load.window_s
    before, after = load.usage_before, load.usage_after
    if before is None or after is None or after.at_ns <= before.at_ns or after.host_cpu_s <= before.host_cpu_s:
        return None
    services_s = sum(after.cpu_s[name] - before.cpu_s[name] for name in after.cpu_s if name in before.cpu_s)
    others_s = after.host_cpu_s - before.host_cpu_s - services_s
    return max(0.0, others_s) / ((after.at_ns - before.at_ns) / 1e9)


def bench_probe(
    bench: Bench,
    study: str,
    plan: StudyPlan,
    case: NodeCase,
    place: NodePlace,
    configuration: Configuration,
    counters: HostCounters | None,
    workload: Workload,
    limit_ms: float,
) -> Probe:
    """Return the probe that deploys the application on the CPUs of one size, and drives ``workload``."""
    application = replace(bench.application, workload=workload)
    load = CountedLoad(bench.load, counters, place.generator)
    counted = replace(bench, application=application, load=load)

    cpus = min(len(read_cpus(place.generator)), generator_cpus(application))

    def probe(rate_rps: float) -> Reading:
        controller = Controller(counted, study, replace(plan, rate_rps=rate_rps), attempts=ATTEMPTS)
        trial = controller.run(TrialSpec(configuration, "probe", plan.repetitions, label=f"{case}, {rate_rps:g}/s"))
        step = step_of(rate_rps, trial, p95_of(trial), limit_ms)
        achieved = [window.achieved_rps for window in trial.measurements if not window.invalid]
        if application.loop == "closed" and achieved:
            step = replace(step, rate_rps=round(sum(achieved) / len(achieved), 1))
        tells = application.loop != "closed" and step.holds
        unusable = "" if tells else _limited(load.busy_cpus, cpus, shared=place.shared)
        late = "" if tells or place.shared else _late(trial, limit_ms)
        if late:
            step = replace(step, holds=None, reason=late)
        reading = _reading(step, trial, load, case, place, application)
        if unusable and application.loop == "closed" and not place.shared:
            most_rps = _most_rps(reading, len(read_cpus(place.services)))
            reading, unusable = replace(reading, most_rps=most_rps), "" if most_rps else unusable
        if unusable:
            step = replace(step, holds=None, reason=unusable)
        bench.watch(RateMeasured(step))
        return replace(reading, step=step, unusable=unusable)

    return probe


def generator_cpus(application: Application) -> int:
    """Return how many hardware threads an application's load generator can use, however many there are."""
    known = EXTERNAL_GENERATORS.get(application.generator)
    if known is None or known.cpus is None or application.external.command:
        return MOST_CPUS
    return known.cpus


def _limited(busy_cpus: float | None, cpus: int, *, shared: bool) -> str:
    """Say that a load generator had too few CPUs for a window to tell of the application; empty where it had enough."""
    if busy_cpus is None or busy_cpus < GENERATOR_MOST * cpus:
        return ""
    said = f"the load generator kept {busy_cpus:.1f} of the {cpus} CPUs busy that it can use"
    return said + (", which the services share" if shared else "; fewer cores for the services may leave it more")


def _most_rps(reading: Reading, cpus: int) -> float | None:
    """Return the rate at which the services' CPUs would all be busy; None where they were far from it.

    By the utilisation law: the share that is busy grows with the rate (Denning and Buzen, Computing Surveys 10(3),
    1978).
    """
    busy = sum(reading.cpu_s.values()) * reading.step.rate_rps / cpus
    return reading.step.rate_rps / min(1.0, busy) if busy >= SERVICES_LEAST else None


def _late(trial: Trial, limit_ms: float) -> str:
    """Say that requests were sent so late that this, and not the application, may have passed the limit; else empty."""
    lags_ms = [window.lag_p99_ms for window in trial.measurements if window.lag_p99_ms is not None]
    if not lags_ms or max(lags_ms) <= LATE * limit_ms:
        return ""
    return f"the generator sent requests late: p99 of its lag is {max(lags_ms):.3g} ms of the {limit_ms:g} ms allowed"


def _reading(
    step: Step, trial: Trial, load: CountedLoad, case: NodeCase, place: NodePlace, application: Application
) -> Reading:
    """Return the reading of a trial's windows.

    A generator's CPU time is that of hardware threads, of which a core of this machine may have two.
    """
    windows = [window for window in trial.measurements if not window.invalid and window.requests]
    if not windows:
        return Reading(step)
    tracing = application.tracing_service
    entry = application.entry
    cores_of_cpu = case.cores / len(read_cpus(place.services))
    taken = {name: us / 1e6 for name, us in cpu_us_per_request(windows).items() if name != tracing}
    busy = load.busy_cpus
    return Reading(
        step=step,
        cpu_s=taken,
        generator_s=None if busy is None else busy / max(step.rate_rps, 1.0),
        generator_cores=(None if busy is None else busy * cores_of_cpu) if place.shared else 0.0,
        memory_bytes={name: size for name, size in load.memory_bytes.items() if name != tracing},
        received_bytes=load.received_bytes.get(entry),
        sent_bytes=load.sent_bytes.get(entry),
    )
