"""What somebody asks the profiler for."""

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
    """``services``: empty for all that spans show.  ``intensities``: (threads, duty); empty for what fits the place.

    ``domains``: two sets of CPUs, or "2": the first is the place, the second the rest.
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
        """Three stressors at one intensity, one block."""
        return replace(self, stressors=QUICK_STRESSORS, intensities=((1, 1.0),), blocks=1, pairs=0, window_s=3.0)
