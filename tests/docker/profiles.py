"""A profile written by hand: services that all harm each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from framework.placement.profile import Profile, ProfileHeader, ProfileWindow, StressorProbe


def write_profile(path: Path, peaks: Mapping[str, float], calls: Mapping[str, Mapping[str, float]]) -> Path:
    """Write a profile of the URL shortener; return its path.  ``peaks``, ``calls``: as in ``ProfileHeader``."""
    about = ProfileHeader("url-shortener", "", {}, "0", "1", 150.0, 1.0, 2.0, 1, peaks, calls=calls)
    windows = [
        ProfileWindow(
            name, kind, int(bool(kind)), float(bool(kind)), 0, at, 99, ms, ms, ms, ms, 150.0, 0.3, 0.0, 9.0, 70.0
        )
        for name in peaks
        for at, (kind, ms) in enumerate([("", 5.0), ("l2", 8.0), ("l2", 8.0), ("", 5.0)])
    ]
    probes = [StressorProbe("l2", 0.0, 100.0), StressorProbe("l2", 1.0, 50.0)]
    path.write_text(Profile(about, windows, probes).to_lines())
    return path
