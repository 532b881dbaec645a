"""The CPUs of a machine, and the caches and memory that they share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from framework.errors import InputError
from framework.model.cpus import write_cpus


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU.  ``core``: the first CPU of its core; ``package``, ``node``: the kernel's numbers of its socket
    and its memory node.
    """

    number: int
    core: int
    package: int
    node: int


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache.  ``kind``: d, i, or empty for both.  ``size_bytes``: 0 where the kernel does not say."""

    level: int
    kind: str
    size_bytes: int
    cpus: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"L{self.level}{self.kind}"


@dataclass(frozen=True, slots=True)
class Topology:
    """The usable CPUs by number, and their caches.  ``offline``: CPUs that are switched off.  ``memory_mib``: memory
    node -> its size, where the kernel reports it.
    """

    cpus: tuple[Cpu, ...]
    caches: tuple[Cache, ...] = ()
    offline: tuple[int, ...] = ()
    memory_mib: Mapping[int, float] = field(default_factory=dict)

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(cpu.number for cpu in self.cpus)

    def groups(self, by: str) -> Mapping[str, tuple[int, ...]]:
        """Return name -> CPUs by core, package, node or cache (of the last level), in the order of their first CPU.

        Where the kernel reports no caches, each package counts as one cache.  Raises InputError for another ``by``.
        """
        if by == "cache":
            last = self._last_level()
            if last:
                return {f"L{cache.level} {index}": cache.cpus for index, cache in enumerate(last)}
            by = "package"
        if by not in ("core", "package", "node"):
            raise InputError(f"groups of CPUs: found {by!r}; allowed: core, cache, node, package")
        groups: dict[int, list[int]] = {}
        for cpu in self.cpus:
            groups.setdefault(getattr(cpu, by), []).append(cpu.number)
        return {f"{by} {number}": tuple(numbers) for number, numbers in groups.items()}

    def _last_level(self) -> Sequence[Cache]:
        """Return the caches furthest from the cores; none where they do not cover every CPU."""
        shared = [cache for cache in self.caches if cache.kind != "i"]
        if not shared:
            return []
        level = max(cache.level for cache in shared)
        last = sorted((cache for cache in shared if cache.level == level), key=lambda cache: cache.cpus)
        return last if {cpu for cache in last for cpu in cache.cpus} == set(self.numbers) else []

    def only(self, cpus: Collection[int]) -> Topology:
        """Return the part of the topology with these CPUs.  Raises InputError where one of them is missing."""
        missing = sorted(set(cpus) - set(self.numbers))
        if missing or not cpus:
            raise InputError(
                f"CPUs: found {write_cpus(missing) or 'none'}; allowed: some of {write_cpus(self.numbers)}"
            )
        caches = (replace(cache, cpus=tuple(cpu for cpu in cache.cpus if cpu in cpus)) for cache in self.caches)
        return Topology(
            tuple(cpu for cpu in self.cpus if cpu.number in cpus),
            tuple(cache for cache in caches if cache.cpus),
            self.offline,
            self.memory_mib,
        )

    def own_memory_mib(self, cpus: Collection[int]) -> float | None:
        """Return the memory of these CPUs' nodes [MiB]; None where other CPUs share it or its size is unknown."""
        nodes = {cpu.node for cpu in self.cpus if cpu.number in cpus}
        shared = any(cpu.node in nodes and cpu.number not in cpus for cpu in self.cpus)
        if shared or not nodes <= self.memory_mib.keys():
            return None
        return sum(self.memory_mib[node] for node in nodes)

    def domains(self, count: int) -> Mapping[str, tuple[int, ...]]:
        """Return name -> CPUs of ``count`` domains of about equal size that share as little as possible.

        Domains consist of whole nodes, packages, caches or cores: the largest units that divide evenly, else cores, or
        CPUs where there are too few cores.  Raises InputError where there are fewer CPUs than domains.
        """
        if not 1 <= count <= len(self.numbers):
            raise InputError(f"domains: found {count}; allowed: 1 to {len(self.numbers)}, one CPU for each")
        for by in ("node", "package", "cache", "core"):
            units = list(self.groups(by).values())
            if len(units) % count == 0 and len({len(unit) for unit in units}) == 1:
                break
        else:
            units = list(self.groups("core").values())
            if len(units) < count:
                units = [(number,) for number in self.numbers]
        each, more = divmod(len(units), count)
        domains, first = {}, 0
        for number in range(count):
            last = first + each + (number < more)
            domains[f"node{number + 1}"] = tuple(sorted(cpu for unit in units[first:last] for cpu in unit))
            first = last
        return domains
