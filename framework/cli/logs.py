"""The log of long-running commands: one JSON object a line, or text for a person.

Text that others wrote (paths of requests, names) cannot move the cursor, change colours or begin a line: control
characters are escaped in both forms.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Time, level, name, message, and whatever the call added."""

    def format(self, record: logging.LogRecord) -> str:
        added = {name: value for name, value in vars(record).items() if name not in _OWN}
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry = {"level": record.levelname.lower(), "name": record.name, "message": record.getMessage()}
        line = {"at": at, **entry, **added}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class Text(logging.Formatter):
    """``12:30:05 tailor.worker: study begins study=...``"""

    def format(self, record: logging.LogRecord) -> str:
        added = " ".join(f"{name}={value}" for name, value in vars(record).items() if name not in _OWN)
        at = datetime.fromtimestamp(record.created).astimezone()
        line = escaped(f"{at:%H:%M:%S} {record.name}: {record.getMessage()} {added}".rstrip())
        if not record.exc_info:
            return line
        return "\n".join([line, *map(escaped, self.formatException(record.exc_info).split("\n"))])


def escaped(text: str) -> str:
    """Write every character that a terminal would not show as itself as Python does: ESC is ``\\x1b``."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def to_stderr(as_json: bool) -> None:
    """Send Tailor's own log to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if as_json else Text())
    log = logging.getLogger("tailor")
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
