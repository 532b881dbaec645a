"""The number of visits that a request pays to each operation of a twin."""

from __future__ import annotations

from framework.model.twin import Twin


def expected_visits(twin: Twin) -> dict[tuple[str, str], float]:
    """Return (service, operation) -> the mean number of its executions per request."""
    visits = {(operation.service, operation.operation): 0.0 for operation in twin.operations}
    for name, share in twin.classes.items():
        service, _, root = name.partition(" ")
        visits[service, root] += share
    calls = {(operation.service, operation.operation): operation.calls for operation in twin.operations}
    level = dict(visits)
    while any(count > 1e-9 for count in level.values()):  # level by level; the call graph has no cycles
        below = dict.fromkeys(visits, 0.0)
        for key, count in level.items():
            for call in calls[key] if count else ():
                below[call.service, call.operation] += count * call.probability * call.times
        for key, count in below.items():
            visits[key] += count
        level = below
    return visits
