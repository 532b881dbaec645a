"""Selectors of a histogram in Prometheus's notation: its name, matchers of its labels, and the unit of its bounds.

Source: Prometheus's data model (names of metrics and labels), and its selectors of instant vectors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from framework.errors import FieldError
from framework.telemetry.latency.source import Place

UNITS_MS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
"""Unit -> milliseconds."""

_SUFFIXES = {"_seconds": "s", "_milliseconds": "ms", "_microseconds": "us", "_nanoseconds": "ns"}
_NAME = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?", re.DOTALL)
_MATCHER = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\[\\"n])*)"\s*(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True, slots=True)
class Selector:
    """A histogram's name without ``_bucket``, and matchers (label, operator, value) that all have to hold."""

    name: str
    matchers: tuple[tuple[str, str, str], ...] = ()

    def __str__(self) -> str:
        return self.name + self.labels

    @property
    def labels(self) -> str:
        """Matchers as Prometheus writes them; empty where there are none."""
        if not self.matchers:
            return ""
        return "{" + ",".join(f'{label}{sign}"{_escaped(value)}"' for label, sign, value in self.matchers) + "}"

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether a series with these labels is chosen; a label that it lacks counts as empty."""
        return all(_holds(labels.get(label, ""), sign, value) for label, sign, value in self.matchers)


def read_selector(text: str) -> Selector:
    """Read a text such as ``http_request_duration_seconds{job="web"}``.  Raises FieldError."""
    allowed = 'a histogram such as http_request_duration_seconds{job="web"}'
    match = _NAME.fullmatch(text.strip())
    if match is None:
        raise FieldError("latency", text, allowed)
    matchers, rest = [], (match[2] or "").strip()
    while rest:
        matcher = _MATCHER.match(rest)
        if matcher is None or matcher[1] in ("le", "__name__"):
            raise FieldError("latency", text, f"{allowed}, with labels other than le")
        value = re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], matcher[3])
        if matcher[2] in ("=~", "!~"):
            _pattern(text, value)
        matchers.append((matcher[1], matcher[2], value))
        rest = rest[matcher.end() :]
    return Selector(match[1].removesuffix("_bucket"), tuple(matchers))


def unit_ms(place: Place, selector: Selector) -> float:
    """Return the unit of the histogram's bounds [ms]: of the option ``unit``, or of its name.  Raises FieldError."""
    by_name = next((unit for suffix, unit in _SUFFIXES.items() if selector.name.endswith(suffix)), "")
    unit = place.options.get("unit", by_name)
    if unit not in UNITS_MS:
        raise FieldError(
            "latency", unit or selector.name,
            f"a histogram whose name ends in {', '.join(_SUFFIXES)}, or the option unit: {', '.join(UNITS_MS)}",
        )  # fmt: skip
    return UNITS_MS[unit]


def _holds(label: str, sign: str, value: str) -> bool:
    if sign in ("=", "!="):
        return (label == value) == (sign == "=")
    return (re.fullmatch(value, label) is not None) == (sign == "=~")


def _pattern(text: str, value: str) -> None:
    try:
        re.compile(value)
    except re.error as error:
        raise FieldError("latency", text, f"regular expressions; this one is none: {error}") from error


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
