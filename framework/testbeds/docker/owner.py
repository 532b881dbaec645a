"""Whose things on the engine a call may change: those that bear a label of Tailor's, written when they were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PROJECT = "tailor.project"
SEED = "tailor.seed"


@dataclass(frozen=True, slots=True)
class Owner:
    """What belongs together on the engine: all that bears ``label`` with ``value``."""

    label: str
    value: str

    @classmethod
    def project(cls, name: str) -> Owner:
        """Of a compose project: what runs for one study or profile."""
        return cls(PROJECT, name)

    @classmethod
    def data(cls, identity: str) -> Owner:
        """Of kept data, which outlive the projects that use them."""
        return cls(SEED, identity)

    def owns(self, labels: Mapping[str, Any] | None) -> bool:
        """Whether something with these labels is its own."""
        return bool(self.value) and (labels or {}).get(self.label) == self.value

    def marked(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Labels for something that is made for it."""
        return {**labels, self.label: self.value}

    def __str__(self) -> str:
        return f"{self.label}={self.value}"
