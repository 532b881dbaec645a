"""Durations with their unit, such as ``20s``."""

from __future__ import annotations

import re

from framework.errors import InputError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_FACTORS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def seconds(option: str, text: str) -> float:
    """Return the seconds of a duration such as ``500ms``, ``20s``, ``30m``, ``2h``, ``90d``.  Raises InputError."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{option}: found {text!r}; allowed: a number with its unit, ms, s, m, h or d, such as 20s")
    return float(match[1]) * _FACTORS[match[2]]
