"""From sweeps of a node to what plans are made of: points of a scaling law, CPU time by service, memory and network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
from scipy.stats import norm, t

from framework.capacity.laws import USUAL_SPREAD, NarrowService, ScalingLaw, fit
from framework.capacity.nodes import MeasuredNode, Traffic
from framework.errors import FieldError
from framework.model.capacity import ScalingPoint
from framework.model.measurement import Estimate
from framework.model.node_measurement import MIX, READS, WRITES, Arm, Kind, NodeMeasurement, NodePoint

ENOUGH_SWEEPS = 3  # of one size, to tell how much equal ones differ
_STREAM = 4  # of the seed, for ratios of CPU time


def node_of(node: NodeMeasurement, arm: Arm = "default", seed: int = 0) -> MeasuredNode:
    """Return a measured node with its laws.  Raises FieldError where no sweep of reads or of all requests has a knee.

    Where the whole mix was measured, a request of the need is one of the mix, whichever its kind.
    """
    reads_kind: Kind = READS if node.of(arm, READS) else MIX
    reads = node.of(arm, reads_kind)
    writes = node.of(arm, WRITES) if reads_kind == READS else ()
    swept: dict[Kind, tuple[NodePoint, ...]] = {READS: reads, **({WRITES: writes} if writes else {})}
    for kind, points in swept.items():
        if not any(point.knee_rps for point in points):
            why = points[0].statement if points else f"it was not measured with the {arm} configuration"
            raise FieldError("node", f"no knee of {kind}", f"a node with at least one size at its knee ({why})")
    known = {kind: [per_request(point, node.operations) for point in points] for kind, points in swept.items()}

    def law(kind: Kind, seed: int) -> ScalingLaw:
        narrow = narrow_services(known[kind], node.most_cores.get(arm, {}))
        return fit(scaling_points(known[kind], modelled=node.modelled), seed, narrow)

    return MeasuredNode(
        reads=law(READS, seed),
        # Another seed: what is unknown about writes does not follow from what is unknown about reads.
        writes=law(WRITES, seed + 1) if writes else None,
        software_bytes=_software_bytes([point for points in swept.values() for point in points]),
        traffic={kind: _traffic(points) for kind, points in known.items()},
        services={kind: service_cpu_s(points) for kind, points in known.items()},
    )


def per_request(point: NodePoint, operations: float) -> NodePoint:
    """Return a point in requests of a need, of which one of the load has so many."""
    return replace(
        point,
        knee_rps=None if point.knee_rps is None else point.knee_rps * operations,
        above_rps=None if point.above_rps is None else point.above_rps * operations,
        cpu_s={name: seconds / operations for name, seconds in point.cpu_s.items()},
        generator_s=None if point.generator_s is None else point.generator_s / operations,
        received_bytes=None if point.received_bytes is None else point.received_bytes / operations,
        sent_bytes=None if point.sent_bytes is None else point.sent_bytes / operations,
    )


def scaling_points(points: Sequence[NodePoint], *, modelled: bool = False) -> list[ScalingPoint]:
    """Return a point for each size that has a knee: its throughput lies between what held and what did not.

    Cores that the load generator kept busy are taken off.  The spread has the distance of these rates, which equal
    sweeps share, and what the sweeps of a size differ by: from three on by their own standard error (Student's t, W. S.
    Gosset, Biometrika 6(1), 1908); below, for measured ones, what two sweeps usually differ by.
    """
    sizes = sorted({point.cores for point in points})
    merged = [_merged([point for point in points if point.cores == size], modelled=modelled) for size in sizes]
    return [point for point in merged if point is not None]


def _merged(points: Sequence[NodePoint], *, modelled: bool) -> ScalingPoint | None:
    logs, distances, left = [], [], []
    for point in points:
        if point.knee_rps is None:
            continue
        above = point.above_rps or point.knee_rps
        cores = point.cores - point.generator_cores
        middle = math.sqrt(point.knee_rps * above)
        left.append(max(1.0, cores))
        logs.append(math.log(middle / min(1.0, cores)))  # less than a core was left: as if a whole one had been
        distances.append((above - point.knee_rps) / middle)
    if not logs:
        return None
    count, usual = len(logs), 0.0 if modelled else USUAL_SPREAD
    own = stdev(logs) / math.sqrt(count) if count > 1 else 0.0
    if count < ENOUGH_SWEEPS:
        own = max(own, usual / math.sqrt(count))
    else:  # as wide as a normal distribution's interval of 95 % would have to be
        own *= float(t.ppf(0.975, count - 1) / norm.ppf(0.975))
    rps = math.exp(fmean(logs))
    spread = math.hypot(own, math.sqrt(fmean(distance**2 for distance in distances) / 12))
    return ScalingPoint(fmean(left), rps, spread * rps)


def _software_bytes(points: Sequence[NodePoint]) -> float:
    return max((math.fsum(point.memory_bytes.values()) for point in points), default=0.0)


def narrow_services(points: Sequence[NodePoint], most_cores: Mapping[str, float]) -> list[NarrowService]:
    """Return the services that can use only some cores, with what a request takes of them.

    ``most_cores``: service -> cores that it can use at most.  CPU time is that of the largest size, which is most like
    those where it matters.
    """
    known = [point for point in points if point.cpu_s]
    largest = max((point.cores for point in known), default=0)
    taken = service_cpu_s([point for point in known if point.cores == largest])
    return [NarrowService(name, cores, taken[name]) for name, cores in most_cores.items() if taken.get(name)]


def service_cpu_s(points: Sequence[NodePoint]) -> dict[str, float]:
    """Return service -> CPU seconds per request: the mean over the sweeps that have a knee; the largest first."""
    known = [point.cpu_s for point in points if point.cpu_s]
    names = dict.fromkeys(name for cpu_s in known for name in cpu_s)
    means = {name: fmean(cpu_s.get(name, 0.0) for cpu_s in known) for name in names}
    return dict(sorted(means.items(), key=lambda item: (-item[1], item[0])))


def _traffic(points: Sequence[NodePoint]) -> Traffic:
    """Return bytes per request, the most of all sweeps; 0 where they are not known."""
    received = [point.received_bytes for point in points if point.received_bytes is not None]
    sent = [point.sent_bytes for point in points if point.sent_bytes is not None]
    return Traffic(max(received, default=0.0), max(sent, default=0.0))


def with_cpu_ratio(law: ScalingLaw, ratio: Estimate, seed: int) -> ScalingLaw:
    """Return the law of a node whose requests take ``ratio`` of the CPU time, an estimate with its 95 % interval.

    The ratio is one for all sizes, so that its error moves each draw as a whole.
    """
    bounded = ratio.low > 0 and math.isfinite(ratio.high)
    error = math.log(ratio.high / ratio.low) / (2 * 1.96) if bounded else 1.0
    draws = law.draws.copy()
    random = np.random.default_rng([seed, _STREAM])
    draws[0] /= ratio.value * np.exp(error * random.standard_normal(draws.shape[1]))
    points = tuple(
        ScalingPoint(point.cores, point.throughput_rps / ratio.value, point.spread / ratio.value)
        for point in law.points
    )
    narrow = tuple(replace(service, cpu_s=service.cpu_s * ratio.value) for service in law.narrow)
    return replace(law, points=points, g=law.g / ratio.value, draws=draws, narrow=narrow)


def notes(node: NodeMeasurement) -> list[str]:
    """Return what a reader of these sweeps has to know, in sentences."""
    said = []
    if node.modelled:
        said.append(f"modelled by the twin of {node.application}, not measured")
    shared = [point for point in node.points if point.generator_cores > 0]
    if shared:
        sizes = ", ".join(str(size) for size in sorted({point.cores for point in shared}))
        most = max(point.generator_cores for point in shared)
        said.append(
            f"the load generator shared the cores of size {sizes}: the cores that it kept busy (up to {most:.2f}) are "
            "taken off"
        )
    known = [point for point in node.points if point.knee_rps is not None]
    if node.closed_loop:
        said.append("swept in a closed loop: each window has the most that the load's connections could ask for")
    open_ended = [] if node.closed_loop else sorted({point.cores for point in known if point.above_rps is None})
    if open_ended:
        said.append(f"no rate was too high on {', '.join(map(str, open_ended))} cores: more may be possible there")
    failed = [point for point in node.points if point.knee_rps is None]
    said += [f"{point.arm}, {point.kind} on {point.cores} cores: {point.statement}" for point in failed]
    return said


def software_notes(node: MeasuredNode) -> list[str]:
    """Return a sentence about the memory of the software, where it is known."""
    if not node.software_bytes:
        return []
    return [
        f"the software took {node.software_bytes / 2**20:,.0f} MiB with the data of the measurement; each node has "
        "that beside its records"
    ]
