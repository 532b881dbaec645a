"""Where services compute in a twin: hosts, cut where CPU sets differ, and how much neighbours slow each other down."""

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
    """A modelled host as a kernel would describe it: a socket, a memory node and a last-level cache are one thing."""
    nodes = [tuple(one.tolist()) for one in np.array_split(np.arange(host.cores), host.nodes)]
    return Topology(
        tuple(Cpu(number, number, node, node) for node, numbers in enumerate(nodes) for number in numbers),
        tuple(Cache(3, "", 0, numbers) for numbers in nodes),
        memory_mib=dict.fromkeys(range(host.nodes), host.memory_mib / host.nodes),
    )


@dataclass(frozen=True)
class Places:
    """Parts of hosts that no service's CPU set divides.

    ``hosts``: (p,), the host of each part.  ``cores``: (p,).  ``reach``: (services, p), where each may compute.
    """

    hosts: tuple[str, ...]
    cores: NDArray[np.float64]
    reach: NDArray[np.bool_]

    @property
    def share(self) -> NDArray[np.float64]:
        """(services, p): how much of its time a service is in each part; rows add up to 1."""
        here = self.reach * self.cores
        found: NDArray[np.float64] = here / here.sum(axis=1, keepdims=True)
        return found


def places_of(twin: Twin, host_of: Mapping[str, str], cpus_of: Mapping[str, str]) -> Places:
    """``host_of``: service -> host.  ``cpus_of``: service -> list of CPUs, of those that may not use all of their host.

    Raises InputError where a host has no such CPUs.
    """
    hosts: list[str] = []
    cores: list[float] = []
    columns: list[list[bool]] = []
    for host in twin.hosts:
        every = frozenset(range(host.cores))
        sets = {
            one.name: _set(one.name, cpus_of[one.name], every) if one.name in cpus_of else every
            for one in twin.services
            if host_of[one.name] == host.name
        }
        for part in _parts(every, sets.values()):
            hosts.append(host.name)
            # What is used by others is missing everywhere alike.
            cores.append(max(0.1, len(part) * (1.0 - host.others / host.cores)))
            columns.append([part <= sets.get(one.name, frozenset()) for one in twin.services])
    return Places(tuple(hosts), np.array(cores), np.array(columns, dtype=np.bool_).T)


def _set(service: str, cpus: str, every: frozenset[int]) -> frozenset[int]:
    found = frozenset(read_cpus(cpus))
    if not found or not found <= every:
        raise InputError(f"{service}.cpuset: found {cpus!r}; allowed in the twin: some of {write_cpus(every)}")
    return found


def _parts(every: frozenset[int], sets: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """The coarsest cut of a host's CPUs that each of the sets is made of, in the order of their first CPU."""
    parts = [every]
    for one in set(sets):
        parts = [piece for part in parts for piece in (part & one, part - one) if piece]
    return sorted(parts, key=min)


def slowdowns(twin: Twin, now: Places) -> NDArray[np.float64]:
    """How much slower each service computes beside its neighbours of now than beside those of the calibration, (s,).

    The log of the slowdown is sensitivity times pressure, summed over neighbours and resources, as in
    ``framework.placement.interference``; a pair that is together part of its time counts by that part.
    """
    resources = sorted({name for one in twin.services for name in (*one.sensitivity, *one.pressure)})
    if not resources:
        return np.ones(len(twin.services))
    sensitivity = np.array([[one.sensitivity.get(name, 0.0) for name in resources] for one in twin.services])
    pressure = np.array([[one.pressure.get(name, 0.0) for name in resources] for one in twin.services])
    # At the calibration every service was on all CPUs of its own host.
    own = np.array([[one.host == host for host in now.hosts] for one in twin.services])
    then = Places(now.hosts, now.cores, own)
    felt = (_together(now) - _together(then)) @ pressure
    found: NDArray[np.float64] = np.exp((sensitivity * felt).sum(axis=1))
    return found


def _together(places: Places) -> NDArray[np.float64]:
    """(services, services): the part of their time that two services are in the same place; 0 with itself."""
    share = places.share
    found: NDArray[np.float64] = share @ share.T
    np.fill_diagonal(found, 0.0)
    return found
