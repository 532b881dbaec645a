"""Owners of things on the engine: a call changes only what bears its owner's label, written when the thing was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PROJECT = "tailor.project"
SEED = "tailor.seed"


@dataclass(frozen=True, slots=True)
class Owner:
    """Owner of everything on the engine that bears ``label`` with ``value``."""

    label: str
    value: str

    @classmethod
    def project(cls, name: str) -> Owner:
        """Return the owner of a compose project: of all that runs for one study or profile."""
        return cls(PROJECT, name)

    @classmethod
    def data(cls, identity: str) -> Owner:
        """Return the owner of a dataset's snapshots, which outlive the projects that use them."""
        return cls(SEED, identity)

    def owns(self, labels: Mapping[str, Any] | None) -> bool:
        """Return whether something with these labels belongs to this owner."""
        return bool(self.value) and (labels or {}).get(self.label) == self.value

    def marked(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Add this owner's label to the labels of something new."""
        return {**labels, self.label: self.value}

    def __str__(self) -> str:
        return f"{self.label}={self.value}"
