"""A bearer token of the service, as the store keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token.  ``digest``: SHA-256 of the token itself, which is stored nowhere."""

    name: str
    digest: str
    scope: Literal["read", "run", "admin"]
    created_at: str
