"""Memory against disks: the cheapest plan of each over growing amounts of records, and where disks become cheaper.

Memory has all records and answers every read; or disks have them, and memory caches a share: then misses take
operations of a disk, and its time counts towards the limit of a request's mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from framework.capacity.answers import MediaComparison, MediaCosts
from framework.capacity.counting import Request
from framework.capacity.plan import plan
from framework.errors import FieldError
from framework.model.capacity import Interval, MachineType, Need

SIZES = (1e12, 2e12, 5e12, 1e13, 2e13, 5e13, 1e14)  # bytes: 1 to 100 TB
DRAWS = 200
_BISECTIONS = 8


def compare_media(
    request: Request, catalogue: Sequence[MachineType], sizes: Sequence[float] = SIZES
) -> MediaComparison:
    """Compare for a need with ``on_disk``, whose stored bytes are replaced by each size.  Raises FieldError."""
    check_media(request.need)
    rows = [_costs(request, catalogue, size) for size in sorted(sizes)]
    last = max((index for index, row in enumerate(rows) if not row.disk_is_cheaper), default=-1)
    if last == len(rows) - 1:
        crossover = None
    elif last == -1:
        crossover = rows[0].stored
    else:
        low, high = rows[last].stored, rows[last + 1].stored
        for _ in range(_BISECTIONS):
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if _costs(request, catalogue, middle).disk_is_cheaper else (middle, high)
        crossover = high
    return MediaComparison(tuple(rows), crossover)


def check_media(need: Need) -> None:
    """Refuse a need that does not say what disks would do.  Raises FieldError."""
    if need.on_disk is None:
        raise FieldError(
            "media",
            "a need without the key 'disk'",
            "with that key in the need: what memory caches, and the disk's time",
        )


def _costs(request: Request, catalogue: Sequence[MachineType], stored: float) -> MediaCosts:
    need = replace(request.need, stored=Interval.exactly(stored), years=0, current=None)
    short = replace(request, draws=min(request.draws, DRAWS), most_plans=1)
    of_disk, of_memory = (
        next(iter(plan(replace(short, need=kind), catalogue).plans), None)
        for kind in (need, replace(need, on_disk=None))
    )
    return MediaCosts(stored, of_memory, of_disk)
