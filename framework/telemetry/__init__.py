"""What Tailor itself does, as spans: where the time of a study goes."""

from framework.telemetry.study import observed

__all__ = ["observed"]
