"""Flags of fields: where an error says ``window_s``, the command line says ``--duration``."""

from __future__ import annotations

from collections.abc import Mapping

from framework.model import TuneRequest
from framework.model.options import options_of

# Fields that are no options of a TuneRequest -> flag, where it is not the field's name with hyphens.
FLAGS: Mapping[str, str] = {
    "changes": "--set",
    "count": "--replications",
    "directory": "--output",
    "disk_mbs": "--disk",
    "for_s": "--for",
    "from_study": "--from",
    "limit_ms": "--sweep",
    "peak_rps": "--peak",
    "seconds": "--duration",
    "speeds": "--speed",
    "start_rps": "--start",
}


def flag(field: str) -> str:
    """Return the flag that a field of a request is given with."""
    declared = options_of(TuneRequest).get(field)
    if declared is None:
        return FLAGS.get(field) or "--" + field.replace("_", "-")
    return declared.flag or flag(declared.option.within)
