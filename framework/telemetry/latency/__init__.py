"""Sensors of the tail latency that the users of a running application see, for a guard: one source, one file."""

from framework.telemetry.latency.text import latency_source

__all__ = ["latency_source"]
