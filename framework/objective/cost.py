"""The quantity "cost": money per hour for what an application's services use, by the prices of machines.

Of many machines of a type, filled with such services, each hour costs price x max(CPU / cores, memory / RAM); the
cheapest type counts.  So a larger cache costs its memory where memory binds, and CPU time where that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from framework.errors import InputError
from framework.model.capacity import MachinePrice, MachineType

GIB = float(2**30)


def cost_per_hour(prices: Sequence[MachinePrice], cores: float, memory_bytes: float) -> float:
    """Return the cost of busy cores and memory with the cheapest machine type.  Raises InputError without prices."""
    if not prices:
        raise InputError("cost needs prices of machines, and the study has none")
    return min(
        machine.price_per_hour * max(cores / machine.cores, memory_bytes / GIB / machine.ram_gib) for machine in prices
    )


def cheapest_prices(machines: Iterable[MachineType]) -> tuple[MachinePrice, ...]:
    """Return the types that are cheapest for some use of CPU and memory, without those of which too little is known."""
    known = [
        MachinePrice(
            f"{machine.name} {machine.region}".rstrip(),
            cores,
            machine.ram_gib,
            machine.price_per_hour,
            machine.currency,
        )
        for machine in machines
        if machine.price_per_hour is not None and machine.ram_gib is not None and (cores := machine.busy_cores())
    ]
    kept: list[MachinePrice] = []
    for machine in sorted(known, key=lambda price: (price.price_per_hour / price.cores, _per_gib(price), price.name)):
        if not kept or _per_gib(machine) < _per_gib(kept[-1]):  # dearer by core: only worth it where memory is cheaper
            kept.append(machine)
    return tuple(kept)


def _per_gib(price: MachinePrice) -> float:
    return price.price_per_hour / price.ram_gib
