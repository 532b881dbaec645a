"""A request to the profiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

STRESSORS = (
    "gemm", "memory-bandwidth", "memory-capacity", "l1i", "l1d", "l2", "l3", "network", "block",
)  # fmt: skip
QUICK_STRESSORS = ("gemm", "l3", "memory-bandwidth")


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """A request for a profile: each service under stressors, and pairs of services on the same CPUs.

    ``services``: empty for all that spans show.  ``intensities``: (threads, duty); empty for those that fit the CPUs.
    ``domains``: two sets of CPUs, or "2": the first is for the measured service, the second for the others.
    """

    application: Path
    services: tuple[str, ...] = ()
    stressors: tuple[str, ...] = STRESSORS
    intensities: tuple[tuple[int, float], ...] = ()
    blocks: int = 3
    pairs: int = 8
    window_s: float = 5.0
    warmup_s: float = 1.0
    rate_rps: float | None = None
    seed: int = 1
    domains: str = "2"
    limits: Mapping[str, float] = field(default_factory=dict)

    def quick(self) -> ProfileRequest:
        """Return a short profile: three stressors at one intensity, one block, no pairs."""
        return replace(self, stressors=QUICK_STRESSORS, intensities=((1, 1.0),), blocks=1, pairs=0, window_s=3.0)
