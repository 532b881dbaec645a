"""Registry of latency sources by name; a file of this folder, or another package, registers one."""

from __future__ import annotations

from collections.abc import Callable

from framework.registry import Registry
from framework.telemetry.latency.source import Place, Source

SOURCES: Registry[Callable[[Place], Source]] = Registry(
    "latency source", "tailor.latency_sources", "framework.telemetry.latency"
)
"""Functions that make a source of its place, without asking it yet.  They raise FieldError for a bad place."""
