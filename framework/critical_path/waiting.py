"""Spans that their parents wait for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from framework.model.spans import KINDS, SpanTable

SERVER, CLIENT, PRODUCER, CONSUMER = (KINDS.index(name) for name in ("server", "client", "producer", "consumer"))


def waited_for(spans: SpanTable) -> NDArray[np.bool_]:
    """Mark rows whose parent waits for them, (n,): no roots, no spans that only follow, no consumers of messages."""
    has_parent = spans.parent >= 0
    sent = np.zeros(len(spans), dtype=np.bool_)
    sent[has_parent] = spans.kind[spans.parent[has_parent]] == PRODUCER
    waited: NDArray[np.bool_] = has_parent & ~spans.follows & ~(sent & (spans.kind == CONSUMER))
    return waited
