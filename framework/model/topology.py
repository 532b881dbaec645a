"""The CPUs of a machine, and what they share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from framework.errors import InputError
from framework.model.cpus import write_cpus


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU.  ``core``: the first CPU of its core; ``package``, ``node``: the kernel's numbers of its socket
    and its memory.
    """

    number: int
    core: int
    package: int
    node: int


@dataclass(frozen=True, slots=True)
class Cache:
    """``kind``: d, i or, for both, empty.  ``size_bytes``: 0 where the kernel does not say."""

    level: int
    kind: str
    size_bytes: int
    cpus: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"L{self.level}{self.kind}"


@dataclass(frozen=True, slots=True)
class Topology:
    """The CPUs that may be used, by number, and their caches.  ``offline``: those that are there and switched off.
    ``memory_mib``: memory node -> its size, where the kernel says it.
    """

    cpus: tuple[Cpu, ...]
    caches: tuple[Cache, ...] = ()
    offline: tuple[int, ...] = ()
    memory_mib: Mapping[int, float] = field(default_factory=dict)

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(one.number for one in self.cpus)

    def groups(self, by: str) -> Mapping[str, tuple[int, ...]]:
        """Name -> CPUs, for ``by`` core, package, node or cache (the last level), in the order of their first CPU.

        Without a word on caches, a package is taken to have one.  Raises InputError.
        """
        if by == "cache":
            last = self._last_level()
            if last:
                return {f"L{one.level} {index}": one.cpus for index, one in enumerate(last)}
            by = "package"
        if by not in ("core", "package", "node"):
            raise InputError(f"groups of CPUs: found {by!r}; allowed: core, cache, node, package")
        found: dict[int, list[int]] = {}
        for one in self.cpus:
            found.setdefault(getattr(one, by), []).append(one.number)
        return {f"{by} {number}": tuple(numbers) for number, numbers in found.items()}

    def _last_level(self) -> Sequence[Cache]:
        """The caches furthest from the cores; none where some CPU has none of them."""
        shared = [one for one in self.caches if one.kind != "i"]
        if not shared:
            return []
        level = max(one.level for one in shared)
        last = sorted((one for one in shared if one.level == level), key=lambda one: one.cpus)
        return last if {cpu for one in last for cpu in one.cpus} == set(self.numbers) else []

    def only(self, cpus: Collection[int]) -> Topology:
        """The part of these CPUs.  Raises InputError where one of them is not there."""
        missing = sorted(set(cpus) - set(self.numbers))
        if missing or not cpus:
            raise InputError(
                f"CPUs: found {write_cpus(missing) or 'none'}; allowed: some of {write_cpus(self.numbers)}"
            )
        caches = (replace(one, cpus=tuple(cpu for cpu in one.cpus if cpu in cpus)) for one in self.caches)
        return Topology(
            tuple(one for one in self.cpus if one.number in cpus),
            tuple(one for one in caches if one.cpus),
            self.offline,
            self.memory_mib,
        )

    def own_memory_mib(self, cpus: Collection[int]) -> float | None:
        """The memory next to these CPUs and to no others [MiB]; None where they share it, or its size is not said."""
        nodes = {one.node for one in self.cpus if one.number in cpus}
        shared = any(one.node in nodes and one.number not in cpus for one in self.cpus)
        if shared or not nodes <= self.memory_mib.keys():
            return None
        return sum(self.memory_mib[node] for node in nodes)

    def domains(self, count: int) -> Mapping[str, tuple[int, ...]]:
        """So many sets of CPUs of about one size that share as little as possible: whole nodes, caches, cores.

        The largest units that can be dealt out evenly are used, else cores, or CPUs where there are too few of them.
        Raises InputError where there are fewer CPUs than domains.
        """
        if not 1 <= count <= len(self.numbers):
            raise InputError(f"domains: found {count}; allowed: 1 to {len(self.numbers)}, one CPU for each")
        for by in ("node", "package", "cache", "core"):
            units = list(self.groups(by).values())
            if len(units) % count == 0 and len({len(one) for one in units}) == 1:
                break
        else:
            units = list(self.groups("core").values())
            if len(units) < count:
                units = [(number,) for number in self.numbers]
        each, more = divmod(len(units), count)
        found, first = {}, 0
        for number in range(count):
            last = first + each + (number < more)
            found[f"node{number + 1}"] = tuple(sorted(cpu for unit in units[first:last] for cpu in unit))
            first = last
        return found
