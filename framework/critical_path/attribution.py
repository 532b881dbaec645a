"""Attribution: the service that each span's own time is charged to.

Caches and databases send no spans: the time of a call without a server span is charged to the peer that the call names,
or else to the peer whose pattern matches the operation's name.  The time of the client's root span outside the first
server span is charged to the front end, which queues requests and may send no spans either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from framework.critical_path.waiting import CLIENT, PRODUCER, SERVER
from framework.model.spans import SpanTable


@dataclass(frozen=True, slots=True)
class Charges:
    """Charges of spans.  ``service``: index into ``names`` of the service that pays for each span's own time, (n,)."""

    names: Sequence[str]
    service: NDArray[np.int32]


def charged(spans: SpanTable, entry: str = "", peers: Mapping[str, str] | None = None) -> Charges:
    """Charge each span's own time to a service.

    ``entry``: the service that clients call (empty: a client's root span keeps its time).

    ``peers``: regular expression -> service, for calls whose span names no peer; the first expression that matches
    somewhere in the operation's name counts.
    """
    names = [*spans.strings]
    peer = spans.peer.copy()
    for pattern, name in reversed(list((peers or {}).items())):
        matching = np.array([re.search(pattern, text) is not None for text in spans.strings], dtype=np.bool_)
        if matching.any():
            peer = np.where((spans.peer < 0) & matching[spans.operation], _index(names, name), peer)
    answered = np.zeros(len(spans), dtype=np.bool_)
    answered[spans.parent[(spans.kind == SERVER) & (spans.parent >= 0)]] = True
    call = (spans.kind == CLIENT) | (spans.kind == PRODUCER)
    service = np.where(call & ~answered & (peer >= 0), peer, spans.service)
    if entry:
        service = np.where((spans.parent == -1) & (spans.kind == CLIENT), _index(names, entry), service)
    return Charges(tuple(names), service.astype(np.int32))


def _index(names: list[str], name: str) -> int:
    if name not in names:
        names.append(name)
    return names.index(name)
