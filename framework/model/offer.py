"""A trial that a client measures elsewhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offer:
    """Until ``expires_ns`` it is the client's; then it is offered again."""

    study: str
    trial: int
    client: str
    expires_ns: int
