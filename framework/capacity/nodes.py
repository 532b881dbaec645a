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
"""Spare cores in square roots of the busy ones: on many cores, one request in twenty waits then."""
GIB, GIGABIT_BYTES, MB = float(2**30), 1e9 / 8, 1e6
ASSUMED_GBPS = 0.01
"""Network of a machine whose catalogue does not tell it: 1 % of 1 Gbit/s, which every machine has all the time."""
DOMAINS = "failure domains"
MISSING = "not in the catalogue: "
"""Beginning of a reason, before the names of the values that are not told."""
CORES_OF = "cores of {}"
"""Resource of a service that can use only some cores."""
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
    (where they were measured apart) -> bytes, and CPU seconds of each service, per request.
    """

    reads: ScalingLaw
    writes: ScalingLaw | None = None
    speeds: Mapping[str, Interval] | None = None
    most_times: float = MOST_TIMES
    extrapolate: bool = False
    software_bytes: float = 0.0
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
        """Whether a machine has more than ``most_times`` the cores that were measured."""
        cores = machine.busy_cores() or 0.0
        return any(law.extrapolates(cores, self.most_times) for law in self.laws())

    def unlike(self, machine: MachineType) -> bool:
        """Whether a machine has so many more or fewer cores than were measured that its plans are marked."""
        cores = machine.busy_cores() or 0.0
        return self.extrapolates(machine) or any(cores * self.most_times < law.least_cores for law in self.laws())


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
        "disk": machine.disk_gib if on_disk or snapshots else 1.0,
        "disk writes": machine.disk_mb_s if machine.disk_gib and (on_disk or snapshots) else 1.0,
        "IOPS": machine.iops if machine.disk_gib and on_disk else 1.0,
    }
    missing = [name for name, size in wanted.items() if size is None]
    if missing:
        return f"{MISSING}{', '.join(missing)}"
    if wanted["disk"] == 0:
        return "no disk of its own, and the need puts records on disks"
    if (machine.busy_cores() or 0.0) < 1:
        return "less than one physical core, which no law is about"
    if node.extrapolates(machine) and not node.extrapolate:
        measured = min(law.measured_cores for law in node.laws())
        return f"{machine.busy_cores():g} cores are more than {node.most_times:g} times the {measured:.3g} measured"
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

    gbps = [ASSUMED_GBPS if machine.network_gbps is None else machine.network_gbps for machine in machines]
    network = column([*gbps]) * GIGABIT_BYTES * survivors
    memory = column([machine.ram_gib for machine in machines]) * GIB - demand.clients * demand.connection
    memory = memory - node.software_bytes
    reads, writes = node.traffic_of("reads"), node.traffic_of("writes")
    # What was measured has headers and acknowledgements too, but only the copies and sizes of the measurement.
    out = np.maximum(demand.bytes_out, demand.reads * reads.sent + demand.writes * writes.sent)
    into = np.maximum(demand.bytes_in, demand.reads * reads.received + demand.writes * writes.received)
    cached = 1.0 if need.on_disk is None else need.on_disk.cached
    cores = _cores_nodes(machines, demand, node, seed)
    nodes = {
        **{name: array / free / survivors for name, array in cores.items()},
        "memory": _quotient(demand.data * cached / need.load_factor, memory),
        "network out": out / network,
        "network in": into / network,
    }
    # A snapshot has a node's own records, whichever others are lost; the writes of a lost node go to the others.
    on_disk, written = np.zeros(demand.cases), np.zeros(demand.cases)
    if need.snapshots is not None:
        on_disk = on_disk + need.snapshots.kept * demand.data
        written = written + demand.data / need.snapshots.every_s
    if need.on_disk is not None:
        on_disk = on_disk + demand.data
        written = written + demand.writes * need.replicas * demand.with_keys / survivors
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


def _cores_nodes(machines: Sequence[MachineType], demand: Demand, node: MeasuredNode, seed: int) -> dict[str, Array]:
    """Return nodes for the CPUs, and for each service that can use only some cores, without headroom and failures.

    Each of shape (machines, cases).  A narrow service may have as many of its cores busy as a machine of so many would.
    Of what the limit leaves for waiting, all narrow services together take at most half.
    """
    sizes, of_size = np.unique([machine.busy_cores() or 0.0 for machine in machines], return_inverse=True)
    cores = sizes[:, None]
    read_s, write_s = (cores / _throughputs(law, cores, demand.cases) for law in node.laws())
    speed = np.ones((1, 1))
    if speeds := _speeds(machines, node, demand.cases, seed):  # else all machines of a size need the same
        speed = np.ones((len(machines), demand.cases))
        for row, values in speeds.items():
            speed[row] = values
        read_s, write_s, cores = read_s[of_size], write_s[of_size], cores[of_size]
        of_size = np.arange(len(machines))
    disk_s = 0.0 if demand.need.on_disk is None else (1 - demand.need.on_disk.hits) * demand.need.on_disk.read_s
    asked = _Asked(demand.reads, demand.writes * demand.need.replicas)
    service_s = asked.slower(read_s, write_s) / speed
    limit = np.broadcast_to(demand.latency_s - disk_s, service_s.shape)
    narrow = {service.name: service.cores for law in node.laws() for service in law.narrow}
    slack, nodes = limit - service_s, {}
    of_reads, of_writes = (law.narrow_s(demand.cases) for law in node.laws())
    nothing = np.zeros(demand.cases)
    for name, most in narrow.items():
        each_s = of_reads.get(name, nothing), of_writes.get(name, nothing)
        own_s, width = asked.slower(*each_s) / speed, np.minimum(most, cores)
        allowed = _allowed(own_s, own_s + slack / (2 * len(narrow)), width)
        nodes[CORES_OF.format(name)] = _quotient(asked.busy(*each_s) / speed, allowed)[of_size]
        limit = limit - mean_wait(own_s, allowed, width)
    allowed = _allowed(service_s, limit, cores)
    return {"cpu": _quotient(asked.busy(read_s, write_s) / speed, allowed)[of_size], **nodes}


@dataclass(frozen=True, slots=True)
class _Asked:
    """Requests per second that all nodes have to answer, copies of writes included; of shape (cases,)."""

    reads: Array
    writes: Array

    def busy(self, read_s: Array, write_s: Array) -> Array:
        """Return the cores that are busy in the mean, from CPU seconds per request."""
        result: Array = read_s * self.reads + write_s * self.writes
        return result

    def slower(self, read_s: Array, write_s: Array) -> Array:
        """Return the seconds of the slower kind, which has to keep the limit too; one that nobody asks for does not."""
        result: Array = np.maximum(read_s * (self.reads > 0), write_s * (self.writes > 0))
        return result


def _throughputs(law: ScalingLaw, cores: Array, cases: int) -> Array:
    """Return requests/s of shape (sizes, cases) as if no service were narrow: by the chosen law, then by its draws."""
    return np.concatenate([law.rps(cores, limited=False), law.rps_of_draws(cores, cases - 1, limited=False)], axis=1)


def _speeds(machines: Sequence[MachineType], node: MeasuredNode, cases: int, seed: int) -> dict[int, Array]:
    """Return row -> speeds of its cores, for those whose speed is stated."""
    ranks = np.random.default_rng([seed, _STREAM]).uniform(size=cases - 1)
    stated = {row: speed for row, machine in enumerate(machines) if (speed := node.speed(machine)) is not None}
    return {row: drawn(speed, ranks) for row, speed in stated.items()}


def _allowed(service_s: Array, limit: Array, cores: Array) -> Array:
    """Return the busy cores with which staffing and a limit of the mean time are kept; 0: none are.

    The shape is that of all arguments together.
    """
    service_s, limit, cores = np.broadcast_arrays(service_s, limit, cores)
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
