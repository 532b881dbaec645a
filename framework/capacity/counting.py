"""Nodes of each machine type for a demand, in every case: as many as are planned, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from framework.capacity.demand import Array, Demand
from framework.capacity.nodes import DOMAINS, MeasuredNode, counted, total
from framework.model.capacity import MachineType, Need

DRAWS = 2_000
CONFIDENCE = 0.9
"""Share of the cases in which a plan's machines are enough."""
LOW, HIGH = 0.05, 0.95  # of the cases: the ends of the intervals of machines and costs


@dataclass(frozen=True, slots=True)
class Request:
    """A question for plans.  ``currency``: by default the only one of the catalogue.  ``most_nodes``: of one plan."""

    need: Need
    node: MeasuredNode
    draws: int = DRAWS
    seed: int = 0
    confidence: float = CONFIDENCE
    currency: str = ""
    most_nodes: int = 1_000
    most_plans: int = 10


@dataclass(frozen=True)
class Counted:
    """Types with their nodes: planned, and at both ends and in the likely case; arrays of shape (types,).

    ``by_resource``: resource -> nodes that it alone would take, not rounded, shape (kinds, cases).  ``kinds``: row of a
    type there; types that differ in price only have one.
    """

    machines: Sequence[MachineType]
    nodes: Array
    low: Array
    likely: Array
    high: Array
    by_resource: dict[str, Array] = field(default_factory=dict)
    kinds: Sequence[int] = ()

    @cached_property
    def costs(self) -> Array:
        """Cost per hour of each type's plan."""
        prices = [machine.price_per_hour or math.nan for machine in self.machines]
        result: Array = self.nodes * np.array(prices, np.float64)
        return result

    def alone(self, row: int, confidence: float) -> dict[str, float]:
        """Return resource -> nodes that it alone would take, where enough has the plan's meaning."""
        nodes = self._of(row)
        return {name: float(max(_at(array, confidence)[1][0], array[0, 0])) for name, array in nodes.items()}

    def binding(self, row: int, confidence: float) -> str:
        """Return the resource that asks for most nodes.

        Where failure domains ask for as many as another resource, that resource is not the reason.
        """
        alone = self.alone(row, confidence)
        return max(alone, key=lambda name: (alone[name], name == DOMAINS))

    def of_cases(self, row: int, need: Need) -> Array:
        """Return the whole nodes that a type takes in the likely case and in every draw; shape (cases,)."""
        cases: Array = total(self._of(row), need)[0]
        return cases

    def _of(self, row: int) -> dict[str, Array]:
        kind = self.kinds[row]
        return {name: array[kind : kind + 1] for name, array in self.by_resource.items()}


def count(request: Request, machines: Sequence[MachineType], wanted: Demand) -> Counted:
    """Count nodes of machines that ``nodes.refusal`` does not refuse."""
    kinds, of_type = _kinds(machines, request.node)
    nodes = counted(kinds, wanted, request.node, request.seed)
    low, planned, high = _at(total(nodes, wanted.need), request.confidence)
    likely = total({name: array[:, :1] for name, array in nodes.items()}, wanted.need)[:, 0]
    shape = (len(kinds), wanted.cases)
    alone = {name: np.broadcast_to(array, shape) for name, array in nodes.items()}
    planned, low, high = np.maximum(planned, likely), np.minimum(low, likely), np.maximum(high, likely)
    return Counted(machines, planned[of_type], low[of_type], likely[of_type], high[of_type], alone, of_type)


def _kinds(machines: Sequence[MachineType], node: MeasuredNode) -> tuple[list[MachineType], list[int]]:
    """Return a machine of each kind that takes its own number of nodes, and each machine's row among them.

    A catalogue has a type in many regions and purchase options, which differ in price only.
    """
    rows: dict[object, int] = {}
    kinds: list[MachineType] = []
    of_type = []
    for machine in machines:
        sizes = (machine.busy_cores(), machine.ram_gib, machine.network_gbps)
        key = (*sizes, machine.disk_gib, machine.disk_mb_s, machine.iops, node.speed(machine))
        if key not in rows:
            rows[key] = len(kinds)
            kinds.append(machine)
        of_type.append(rows[key])
    return kinds, of_type


def _at(nodes: Array, confidence: float) -> tuple[Array, Array, Array]:
    """Return nodes at both ends of the interval and at the confidence asked for: values that draws have."""
    draws = nodes.shape[1] - 1
    ranks = [max(0, math.ceil(share * draws - 1e-9) - 1) for share in (LOW, confidence, HIGH)]
    ordered = np.partition(nodes[:, 1:], sorted(set(ranks)), axis=1)
    low, planned, high = (ordered[:, rank] for rank in ranks)
    return low, planned, high
