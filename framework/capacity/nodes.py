"""Numbers of nodes that a demand takes on each machine type: the largest of what each resource asks for.

CPUs: a node with N cores may have so many busy, a, that a + Q sqrt(a) <= N (square-root staffing; S. Halfin, W. Whitt,
Operations Research 29(3), 1981; Q = 1.76 as in Netflix' service-capacity-modeling), and that a request's mean time
stays below the limit.  Records are spread over nodes, so each node needs the spare cores for itself: its
queue is its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import reduce

import numpy as np

from framework.capacity.demand import Array, Demand, drawn
from framework.capacity.laws import MOST_TIMES, ScalingLaw
from framework.model.capacity import Interval, MachineType, Need

Q = 1.76
GIB, GIGABIT_BYTES, MB = float(2**30), 1e9 / 8, 1e6
DOMAINS = "failure domains"
RESOURCES = ("cpu", "memory", "network out", "network in", "disk", "disk writes", "iops", DOMAINS)
_STREAM = 2  # of the seed, for speeds
_BISECTIONS = 24
_ROUNDING = 1e-9  # nodes that are a fraction of a fraction too few


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes per request that a node receives and sends; 0 where that was not measured."""

    received: float = 0.0
    sent: float = 0.0


@dataclass(frozen=True)
class MeasuredNode:
    """A node that was measured: throughput of reads and of writes against cores.

    ``writes``: None where a write is taken to cost as much as a read.  ``speeds``: pattern of a processor's name (with
    ``*``) -> its speed by core, the measured one's being 1; the first that fits counts, and without one the speed is 1.
    ``extrapolate``: whether the laws are asked beyond ``most_times`` the measured cores.

    ``software_bytes``: memory that the software takes on each node.  ``traffic``, ``services``: "reads" and "writes"
    (where they were measured apart) -> bytes, and CPU seconds of each service, per request.  ``narrow``: likewise, the
    service whose limit of cores is the law's ceiling.
    """

    reads: ScalingLaw
    writes: ScalingLaw | None = None
    speeds: Mapping[str, Interval] | None = None
    most_times: float = MOST_TIMES
    extrapolate: bool = False
    software_bytes: float = 0.0
    narrow: Mapping[str, str] = field(default_factory=dict)
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    services: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def traffic_of(self, kind: str) -> Traffic:
        """Return the bytes of a read or a write; a write's are a read's where it was not measured."""
        return self.traffic.get(kind) or self.traffic.get("reads") or Traffic()

    def laws(self) -> tuple[ScalingLaw, ScalingLaw]:
        return self.reads, self.writes or self.reads

    def speed(self, machine: MachineType) -> Interval | None:
        """Return the stated speed of a machine's cores; None where none is."""
        for pattern, speed in (self.speeds or {}).items():
            if fnmatchcase(machine.processor.lower(), pattern.lower()):
                return speed
        return None

    def extrapolates(self, machine: MachineType) -> bool:
        cores = machine.busy_cores() or 0.0
        return any(law.extrapolates(cores, self.most_times) for law in self.laws())


def refusal(machine: MachineType, need: Need, node: MeasuredNode, currency: str) -> str:
    """Return why a machine type cannot be planned with before anything is counted; empty where it can."""
    if machine.price_per_hour is None:
        return "no price in the catalogue"
    if machine.currency != currency:
        return f"priced in {machine.currency}, this plan is in {currency}"
    on_disk, snapshots = need.on_disk is not None, need.snapshots is not None
    wanted = {
        "cores": machine.busy_cores(),
        "memory": machine.ram_gib,
        "network": machine.network_gbps,
        "disk": machine.disk_gib if on_disk or snapshots else 1.0,
        "disk writes": machine.disk_mb_s if machine.disk_gib and (on_disk or snapshots) else 1.0,
        "IOPS": machine.iops if machine.disk_gib and on_disk else 1.0,
    }
    missing = [name for name, size in wanted.items() if size is None]
    if missing:
        return f"not in the catalogue: {', '.join(missing)}"
    if wanted["disk"] == 0:
        return "no disk of its own, and the need puts records on disks"
    if node.extrapolates(machine) and not node.extrapolate:
        measured = min(law.measured_cores for law in node.laws())
        return f"{machine.busy_cores():g} cores are more than {node.most_times:g} times the {measured:g} measured"
    return ""


def counted(machines: Sequence[MachineType], demand: Demand, node: MeasuredNode, seed: int) -> dict[str, Array]:
    """Return resource -> nodes that it asks for, not rounded, of shape (machines, cases) or (1, cases).

    Infinite where no number of such machines is enough.  ``machines``: without those that ``refusal`` refuses.
    """
    need, free = demand.need, 1 - demand.need.headroom
    # The machines of a lost failure domain have left; copies are elsewhere, but their load is too.
    survivors = 1.0 if need.failure_domains == 1 else (need.failure_domains - 1) / need.failure_domains

    def column(sizes: list[float | None]) -> Array:
        return np.array([size or 0.0 for size in sizes], np.float64)[:, None] * free

    network = column([machine.network_gbps for machine in machines]) * GIGABIT_BYTES * survivors
    memory = column([machine.ram_gib for machine in machines]) * GIB - demand.clients * demand.connection
    memory = memory - node.software_bytes
    reads, writes = node.traffic_of("reads"), node.traffic_of("writes")
    # What was measured has headers and acknowledgements too, but only the copies and sizes of the measurement.
    out = np.maximum(demand.bytes_out, demand.reads * reads.sent + demand.writes * writes.sent)
    into = np.maximum(demand.bytes_in, demand.reads * reads.received + demand.writes * writes.received)
    cached = 1.0 if need.on_disk is None else need.on_disk.cached
    nodes = {
        "cpu": _cpu_nodes(machines, demand, node, seed) / free / survivors,
        "memory": _quotient(demand.data * cached / need.load_factor, memory),
        "network out": out / network,
        "network in": into / network,
    }
    on_disk, written = np.zeros(demand.cases), np.zeros(demand.cases)
    if need.snapshots is not None:
        on_disk = on_disk + need.snapshots.kept * demand.data
        written = written + demand.data / need.snapshots.every_s
    if need.on_disk is not None:
        on_disk = on_disk + demand.data
        written = written + demand.writes * need.replicas * demand.with_keys
        operations = (1 - need.on_disk.hits) * demand.reads + demand.writes * need.replicas
        nodes["iops"] = operations / column([machine.iops for machine in machines]) / survivors
    if need.snapshots is not None or need.on_disk is not None:
        nodes["disk"] = on_disk / (column([machine.disk_gib for machine in machines]) * GIB)
        nodes["disk writes"] = written / (column([machine.disk_mb_s for machine in machines]) * MB)
    nodes[DOMAINS] = np.full((1, demand.cases), float(max(need.failure_domains, need.replicas)))
    return nodes


def total(nodes: Mapping[str, Array], need: Need) -> Array:
    """Return whole nodes for the most demanding resource, evenly over the domains; shape (machines, cases)."""
    most: Array = reduce(np.maximum, nodes.values())
    return rounded(most, need)


def rounded(nodes: Array, need: Need) -> Array:
    """Return whole nodes, evenly over the failure domains."""
    result: Array = np.ceil(nodes / need.failure_domains - _ROUNDING) * need.failure_domains
    return result


def pooled_cores(busy: float) -> float:
    """Return the cores of one pool in which so many are busy in the mean: a + Q sqrt(a)."""
    return busy + Q * float(np.sqrt(busy))


def most_busy(cores: Array) -> Array:
    """Return the cores that may be busy of so many, by square-root staffing: the inverse of ``pooled_cores``."""
    result: Array = ((np.sqrt(Q * Q + 4 * cores) - Q) / 2) ** 2
    return result


def mean_wait(service_s: Array, busy: Array, cores: Array) -> Array:
    """Return the mean seconds of waiting for one of ``cores``, of which ``busy`` are in the mean.

    Approximation of M/M/c by H. Sakasegawa (1977, Annals of the Institute of Statistical Mathematics 29).
    """
    used = busy / cores
    result: Array = service_s * used ** (np.sqrt(2 * (cores + 1)) - 1) / (cores * (1 - used))
    return result


def _quotient(wanted: Array, available: Array) -> Array:
    result: Array = np.where(available > 0, wanted / np.where(available > 0, available, 1.0), np.inf)
    return result


def _cpu_nodes(machines: Sequence[MachineType], demand: Demand, node: MeasuredNode, seed: int) -> Array:
    """Return nodes for the CPU alone, without headroom and failures; shape (machines, cases)."""
    sizes, of_size = np.unique([machine.busy_cores() or 0.0 for machine in machines], return_inverse=True)
    cores = sizes[:, None]
    read_s, write_s = (cores / _throughputs(law, cores, demand.cases) for law in node.laws())
    busy = read_s * demand.reads + write_s * (demand.writes * demand.need.replicas)
    # The slower kind of request has to keep the limit too; a kind that nobody asks for does not count.
    service_s = np.maximum(read_s * (demand.reads > 0), write_s * (demand.writes > 0))
    speeds = _speeds(machines, node, demand.cases, seed)
    if not speeds:  # all machines of a size need the same
        return _quotient(busy, _allowed(service_s, demand, cores))[of_size]
    speed = np.ones((len(machines), demand.cases))
    for row, values in speeds.items():
        speed[row] = values
    allowed = _allowed(service_s[of_size] / speed, demand, cores[of_size])
    return _quotient(busy[of_size] / speed, allowed)


def _throughputs(law: ScalingLaw, cores: Array, cases: int) -> Array:
    """Return requests/s of shape (sizes, cases): by the chosen law first, then by the law's draws."""
    return np.concatenate([law.rps(cores), law.rps_of_draws(cores, cases - 1)], axis=1)


def _speeds(machines: Sequence[MachineType], node: MeasuredNode, cases: int, seed: int) -> dict[int, Array]:
    """Return row -> speeds of its cores, for those whose speed is stated."""
    ranks = np.random.default_rng([seed, _STREAM]).uniform(size=cases - 1)
    stated = {row: speed for row, machine in enumerate(machines) if (speed := node.speed(machine)) is not None}
    return {row: drawn(speed, ranks) for row, speed in stated.items()}


def _allowed(service_s: Array, demand: Demand, cores: Array) -> Array:
    """Return the busy cores of a node with which staffing and the limit of the mean time are kept; 0: none are."""
    disk_s = 0.0 if demand.need.on_disk is None else (1 - demand.need.on_disk.hits) * demand.need.on_disk.read_s
    limit = np.broadcast_to(demand.latency_s - disk_s, service_s.shape)
    shape = service_s.shape
    cores = np.broadcast_to(cores, shape)
    allowed = most_busy(cores)
    late = service_s + mean_wait(service_s, allowed, cores) > limit
    if not late.any():
        return allowed
    service, width, most = service_s[late], cores[late], limit[late]
    low, high = np.zeros_like(service), allowed[late]
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        fits = service + mean_wait(service, middle, width) <= most
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    allowed[late] = np.where(service <= most, low, 0.0)
    return allowed
