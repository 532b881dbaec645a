"""A log with a line for each request, as of h2load: start [us since the epoch], status, time to the reply [us]."""

from __future__ import annotations

from pathlib import Path

from framework.errors import LoadFailed
from framework.load.request_rows import RequestRows

FIELDS = 3  # of a line; later versions may add some


def read_timed_lines(path: Path, generator: str) -> RequestRows:
    """Read a log; a status of 0 or below means that there was no reply.  Raises LoadFailed."""
    rows = RequestRows()
    try:
        with path.open("rb") as file:
            for at, line in enumerate(file, 1):
                fields = line.split(b"\t")
                if len(fields) < FIELDS:
                    raise LoadFailed(f"{path.name}, line {at}: {len(fields)} fields; at least {FIELDS} are expected")
                start_us, status, took_us = (int(field) for field in fields[:FIELDS])
                answered = status > 0
                rows.add(
                    start_us * 1000, (start_us + took_us) * 1000 if answered else 0, status,
                    ok=200 <= status < 400, reason="" if answered else "no reply",
                )  # fmt: skip
    except (OSError, ValueError) as error:
        raise LoadFailed(f"the log of {generator} cannot be read: {error}") from error
    return rows
