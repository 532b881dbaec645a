"""CPU sets in a twin: hosts, cut where CPU sets differ, and how much neighbours slow each other down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from framework.errors import InputError
from framework.model.cpus import read_cpus, write_cpus
from framework.model.topology import Cache, Cpu, Topology
from framework.model.twin import Twin, TwinHost


def topology_of(host: TwinHost) -> Topology:
    """Return the topology of a modelled host: each memory node is a socket with its own last-level cache."""
    nodes = [tuple(cpus.tolist()) for cpus in np.array_split(np.arange(host.cores), host.nodes)]
    return Topology(
        tuple(Cpu(number, number, node, node) for node, numbers in enumerate(nodes) for number in numbers),
        tuple(Cache(3, "", 0, numbers) for numbers in nodes),
        memory_mib=dict.fromkeys(range(host.nodes), host.memory_mib / host.nodes),
    )


@dataclass(frozen=True)
class Places:
    """Parts of hosts that no service's CPU set divides.

    ``hosts``: (p,), the host of each part.  ``cores``: (p,).  ``reach``: (services, p), whether a service may compute
    there.
    """

    hosts: tuple[str, ...]
    cores: NDArray[np.float64]
    reach: NDArray[np.bool_]

    @property
    def share(self) -> NDArray[np.float64]:
        """Fraction of its time that a service computes in each part, (services, p); rows add up to 1."""
        cores = self.reach * self.cores
        share: NDArray[np.float64] = cores / cores.sum(axis=1, keepdims=True)
        return share


def places_of(twin: Twin, host_of: Mapping[str, str], cpus_of: Mapping[str, str]) -> Places:
    """Cut the hosts into parts.  ``host_of``: service -> host.  ``cpus_of``: service -> its list of CPUs; one that is
    missing there may use all of its host.

    Raises InputError where a host has no such CPUs.
    """
    hosts: list[str] = []
    cores: list[float] = []
    columns: list[list[bool]] = []
    for host in twin.hosts:
        every = frozenset(range(host.cores))
        sets = {
            service.name: _set(service.name, cpus_of[service.name], every) if service.name in cpus_of else every
            for service in twin.services
            if host_of[service.name] == host.name
        }
        for part in _parts(every, sets.values()):
            hosts.append(host.name)
            # Cores that others use are missing from every part in proportion to its size.
            cores.append(max(0.1, len(part) * (1.0 - host.others / host.cores)))
            columns.append([part <= sets.get(service.name, frozenset()) for service in twin.services])
    return Places(tuple(hosts), np.array(cores), np.array(columns, dtype=np.bool_).T)


def _set(service: str, cpus: str, every: frozenset[int]) -> frozenset[int]:
    chosen = frozenset(read_cpus(cpus))
    if not chosen or not chosen <= every:
        raise InputError(f"{service}.cpuset: found {cpus!r}; allowed in the twin: some of {write_cpus(every)}")
    return chosen


def _parts(every: frozenset[int], sets: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """Return the coarsest partition of a host's CPUs that every set is a union of, in the order of the first CPUs."""
    parts = [every]
    for cpus in set(sets):
        parts = [piece for part in parts for piece in (part & cpus, part - cpus) if piece]
    return sorted(parts, key=min)


def slowdowns(twin: Twin, now: Places) -> NDArray[np.float64]:
    """Return how much slower each service computes beside its present neighbours than beside those of the calibration.

    Shape (services,).  The log of the slowdown is sensitivity times pressure, summed over neighbours and resources, as
    in ``framework.placement.interference``.  A pair counts by the fraction of time that both share a part of a host.
    """
    resources = sorted({name for service in twin.services for name in (*service.sensitivity, *service.pressure)})
    if not resources:
        return np.ones(len(twin.services))
    sensitivity = np.array([[service.sensitivity.get(name, 0.0) for name in resources] for service in twin.services])
    pressure = np.array([[service.pressure.get(name, 0.0) for name in resources] for service in twin.services])
    # At the calibration every service was on all CPUs of its own host.
    own = np.array([[service.host == host for host in now.hosts] for service in twin.services])
    then = Places(now.hosts, now.cores, own)
    added = (_colocation(now) - _colocation(then)) @ pressure
    slower: NDArray[np.float64] = np.exp((sensitivity * added).sum(axis=1))
    return slower


def _colocation(places: Places) -> NDArray[np.float64]:
    """Return the fraction of time that two services share a part of a host, (services, services); the diagonal is 0."""
    share = places.share
    shared: NDArray[np.float64] = share @ share.T
    np.fill_diagonal(shared, 0.0)
    return shared
