"""A study that waits for a worker, or that one works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ENGINE = "engine"
Stop = Literal["", "now", "after trial"]


@dataclass(frozen=True, slots=True)
class Job:
    """``priority``: higher first.  ``owner``: who asked for it; owners take turns.  ``resource``: what it needs for
    itself alone while it runs, empty where it needs nothing: an ``ENGINE`` while it waits, then the one that its worker
    has.  ``worker``: who has it, empty while it waits.  ``stop``: what somebody asked for.
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
    """``owner``: whose key it is; other owners may use the same text.  ``request``: the SHA-256 of all that the request
    asks for, 64 hexadecimal digits: a key stands for one request.
    """

    owner: str
    key: str
    request: str
