"""A need as numbers to count machines with: one likely case, and draws from the need's intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from framework.model.capacity import Interval, Need

Array = NDArray[np.float64]

_AMOUNTS = ("reads", "writes", "stored", "record", "clients", "connection", "latency_s", "growth")
"""Each has draws of its own, in this order, so that a change of one leaves the others' draws as they are."""
STREAM = 1
"""Of the seed: laws and speeds have others, since what is unknown about a need says nothing about them."""
GROWING = ("reads", "writes", "stored", "clients")


@dataclass(frozen=True)
class Demand:
    """Amounts of a need, each of shape (1 + draws,): first the likely case, then the draws.

    ``latency_s``: infinite where the need has no limit.
    """

    need: Need
    reads: Array
    writes: Array
    stored: Array
    record: Array
    clients: Array
    connection: Array
    latency_s: Array
    growth: Array

    @property
    def cases(self) -> int:
        return len(self.reads)

    @property
    def with_keys(self) -> Array:
        """Bytes of a record and its key."""
        return self.record + self.need.key_bytes

    @property
    def data(self) -> Array:
        """Bytes of all records, keys and copies."""
        result: Array = self.stored * (self.with_keys / self.record) * self.need.replicas
        return result

    @property
    def bytes_out(self) -> Array:
        """Bytes per second that leave all nodes: replies, and writes on their way to the other copies."""
        result: Array = (self.reads + self.writes * (self.need.replicas - 1)) * self.with_keys
        return result

    @property
    def bytes_in(self) -> Array:
        """Bytes per second that reach all nodes: keys of reads, and writes to every copy."""
        result: Array = self.reads * self.need.key_bytes + self.writes * self.need.replicas * self.with_keys
        return result

    def after(self, years: float) -> Demand:
        """Return the demand after so many years of growth."""
        factor = self.growth**years
        return replace(self, **{name: getattr(self, name) * factor for name in GROWING})

    def scaled(self, name: str, factor: float) -> Demand:
        return replace(self, **{name: getattr(self, name) * factor})


def demand(need: Need, draws: int, seed: int) -> Demand:
    """Return the likely case of a need and so many draws from its intervals, whose densities are triangles.

    Draws come from the same quantiles whatever the amounts are: a need that is larger in every amount is larger in
    every draw.
    """
    random = np.random.default_rng([seed, STREAM])
    quantiles = random.uniform(size=(len(_AMOUNTS), draws))
    without_limit = Interval.exactly(np.inf)
    amounts = {}
    for name, ranks in zip(_AMOUNTS, quantiles, strict=True):
        interval = getattr(need, name)
        amounts[name] = drawn(without_limit if interval is None else interval, ranks)
    return Demand(need, **amounts)


def drawn(interval: Interval, ranks: Array) -> Array:
    """Return the likely value, then the triangular distribution's quantiles at ``ranks``; shape (1 + len(ranks),)."""
    low, likely, high = interval.low, interval.likely, interval.high
    if low == high:
        return np.full(1 + len(ranks), likely)
    width = high - low
    rising = low + np.sqrt(ranks * width * (likely - low))
    falling = high - np.sqrt((1 - ranks) * width * (high - likely))
    return np.concatenate([[likely], np.where(ranks * width < likely - low, rising, falling)])
