"""The power of a plan's machines, estimated from their processors and from how busy the need keeps them."""

from __future__ import annotations

import math

from framework.capacity.demand import Demand
from framework.capacity.nodes import MeasuredNode
from framework.energy.power_catalogue import curve_of
from framework.model.capacity import Interval, MachineType

THREADS = 2  # of a core, where the catalogue does not tell hardware threads


def plan_power(node: MeasuredNode, machine: MachineType, wanted: Demand, nodes: int) -> Interval | None:
    """Return the watts of so many machines in the likely case, with the 95 % interval of the estimate.

    None where the processor is not known.  A machine that is part of a server has that part of its power.
    """
    cores = machine.busy_cores()
    threads = machine.vcpus or (THREADS * machine.cores if machine.cores else None)
    if not cores or not threads:
        return None
    curve = curve_of(machine.processor, round(threads))
    if curve is None:
        return None
    read_s, write_s = (cores / float(law.rps(cores, limited=False)) for law in node.laws())
    busy = read_s * float(wanted.reads[0]) + write_s * float(wanted.writes[0]) * wanted.need.replicas
    speed = node.speed(machine)
    likely = nodes * curve.watts(busy / (1.0 if speed is None else speed.likely) / (nodes * cores))
    return Interval(likely * math.exp(-curve.error), likely, likely * math.exp(curve.error))
