"""Jobs of the queue, and idempotency keys of launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ENGINE = "engine"
Stop = Literal["", "now", "after trial"]


@dataclass(frozen=True, slots=True)
class Job:
    """A study that waits for a worker, or that a worker runs.

    ``priority``: higher first.  ``owner``: who launched it; owners take turns.  ``resource``: what the job needs to
    itself while it runs, empty for nothing: ``ENGINE`` while it waits, then the name of its worker's engine.
    ``worker``: the one that has it, empty while it waits.  ``stop``: whether, and when, it should stop.
    """

    study: str
    priority: int
    owner: str
    resource: str
    queued_ns: int
    worker: str = ""
    stop: Stop = ""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A key that stands for one request, so that sending it again launches nothing new.

    ``owner``: whose key it is; other owners may use the same text.  ``request``: SHA-256 of the whole request, 64
    hexadecimal digits.
    """

    owner: str
    key: str
    request: str
