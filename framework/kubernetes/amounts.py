"""Amounts of a compose file in Kubernetes' units: CPUs, bytes, durations."""

from __future__ import annotations

import math
import re
from typing import Any

from framework.compose.amounts import SIZES

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|us|ns|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def memory(value: Any) -> str:
    """Return a size of compose (``512m``, bytes) as a quantity: ``512Mi``.  Raises ValueError."""
    match = _SIZE.fullmatch(str(value).strip())
    unit = match[2].lower() if match else ""
    if match is None or (unit and unit not in SIZES):
        raise ValueError(f"found {value!r}, which is no size")
    size = round(float(match[1]) * SIZES.get(unit, 1.0))
    for name, factor in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if size and size % factor == 0:
            return f"{size // factor}{name}"
    return str(size)


def cpus(value: Any) -> str:
    """Return a number of CPUs as a quantity: ``2``, ``500m``; at least a thousandth.  Raises ValueError."""
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"found {value!r}, which is no number of CPUs")
    thousandths = max(1, round(number * 1000))
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def seconds(value: Any) -> float:
    """Return the seconds of a duration of compose: ``1m30s``, ``500ms``; a number counts as seconds.

    Raises ValueError.
    """
    text = str(value).strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"found {value!r}, which is no duration")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def whole_seconds(value: Any) -> int:
    """Return the whole seconds of a duration, rounded up, at least one.  Raises ValueError."""
    return max(1, math.ceil(seconds(value) - 1e-9))
