"""How often requests come by each operation of a twin."""

from __future__ import annotations

from framework.model.twin import Twin


def expected_visits(twin: Twin) -> dict[tuple[str, str], float]:
    """How often a request comes by each operation, on average."""
    found = {(one.service, one.operation): 0.0 for one in twin.operations}
    for name, share in twin.classes.items():
        service, _, operation = name.partition(" ")
        found[service, operation] += share
    calls = {(one.service, one.operation): one.calls for one in twin.operations}
    adding = dict(found)
    while any(count > 1e-9 for count in adding.values()):  # level by level; calls do not go in circles
        below = dict.fromkeys(found, 0.0)
        for key, count in adding.items():
            for call in calls[key] if count else ():
                below[call.service, call.operation] += count * call.probability * call.times
        for key, count in below.items():
            found[key] += count
        adding = below
    return found
