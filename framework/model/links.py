"""Links between the hosts of a testbed: how long a call takes on each, and how many bytes go through."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """Way from a container on one host to a container on another, or on the same one.

    ``round_trip_ms``: the median time of a byte to the other container and back.  ``mbit_per_s``: bytes of one TCP
    connection that arrive [Mbit/s].
    """

    origin: str
    target: str
    round_trip_ms: float
    mbit_per_s: float

    @property
    def is_local(self) -> bool:
        """Whether both containers are on one host."""
        return self.origin == self.target


def longer_between_ms(links: Sequence[Link]) -> float:
    """Return how much longer a call to another host takes than one within a host [ms]: the difference of medians.

    0 where it is not longer, or where there is one host.
    """
    near = [link.round_trip_ms for link in links if link.is_local]
    far = [link.round_trip_ms for link in links if not link.is_local]
    return max(0.0, statistics.median(far) - statistics.median(near)) if near and far else 0.0


def links_in_words(links: Sequence[Link]) -> str:
    """Say in a sentence what calls between hosts cost; empty where there is one host."""
    far = [link for link in links if not link.is_local]
    if not far:
        return ""
    longest, narrowest = max(far, key=lambda link: link.round_trip_ms), min(far, key=lambda link: link.mbit_per_s)
    return (
        f"a call to another host takes {longer_between_ms(links):.3f} ms longer than one within a host "
        f"(median of {len(far)} links; the longest, {longest.origin} to {longest.target}, {longest.round_trip_ms:.3f} "
        f"ms in all; the narrowest, {narrowest.origin} to {narrowest.target}, {narrowest.mbit_per_s:.0f} Mbit/s)"
    )
