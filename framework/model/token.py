"""A bearer token of the service, as it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Token:
    """``digest``: SHA-256 of the token itself, which is kept nowhere."""

    name: str
    digest: str
    scope: Literal["read", "run", "admin"]
    created_at: str
