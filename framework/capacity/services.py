"""Services of one application in a plan: each node runs a share of all, or each service has nodes of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from framework.capacity.answers import ServiceShare
from framework.capacity.demand import Demand
from framework.capacity.nodes import CORES_OF, MeasuredNode, rounded
from framework.model.capacity import MachineType


def service_shares(
    node: MeasuredNode, machine: MachineType, wanted: Demand, alone: Mapping[str, float]
) -> tuple[ServiceShare, ...]:
    """Return the application's services, those that take most CPU time first; none where that was not measured.

    ``alone``: resource -> nodes that it alone takes, not rounded.  Apart, a service takes its share of those of the
    CPU, or those that its few cores take, in whole nodes of every failure domain: its law is taken to be the
    application's.
    """
    reads = node.services.get("reads", {})
    writes = node.services.get("writes") or reads
    if not reads:
        return ()
    cores, need = machine.busy_cores() or 1.0, wanted.need
    read_s, write_s = (cores / float(law.rps(cores, limited=False)) for law in node.laws())
    busy = dict.fromkeys((*reads, *writes), 0.0)
    for cpu_s, second_s, rate in ((reads, read_s, wanted.reads), (writes, write_s, wanted.writes * need.replicas)):
        for name, share in _shares(cpu_s).items():
            busy[name] += share * second_s * float(rate[0])
    whole = math.fsum(busy.values())
    least = max(need.failure_domains, need.replicas)
    services = []
    for name, taken in busy.items():
        share = taken / whole if whole else 0.0
        apart = max(least, alone["cpu"] * share, alone.get(CORES_OF.format(name), 0.0))
        services.append(ServiceShare(name, share, taken, int(rounded(np.asarray(apart), need))))
    return tuple(sorted(services, key=lambda service: (-service.share, service.service)))


def _shares(cpu_s: Mapping[str, float]) -> dict[str, float]:
    whole = math.fsum(cpu_s.values())
    return {name: seconds / whole for name, seconds in cpu_s.items()} if whole else {}
