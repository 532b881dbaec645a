"""Spans of Tailor's own work, which show where the time of a study goes."""

from framework.telemetry.study import observed

__all__ = ["observed"]
