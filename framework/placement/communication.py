"""Calls between hosts as a cost of placements, in the unit of interference: the log of a service's slowdown.

A caller waits longer for a service on another host.  Its slowdown is that time, for the calls of one of its spans, over
its mean latency on one machine.  Calls that are made at the same time are counted as if one came after the other, and
each service that is called adds its own slowdown: so the cost is an upper bound where several are on other hosts.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping

from framework.placement.domains import Domains
from framework.placement.profile import Profile
from optimizer.placement.assignment import COST, REMOTE


def slowdowns_of_calls(profile: Profile, between_ms: float, entry: str) -> Mapping[tuple[str, str], float]:
    """Return (caller, service that it calls) -> log of the caller's slowdown where they are on different hosts.

    ``between_ms``: how much longer one call takes then.  ``entry``: the service that each request visits, besides the
    calls to it.  Callers without an undisturbed window are left out.
    """
    calls = profile.about.calls
    visits: dict[str, float] = {entry: 1.0}
    for callees in calls.values():
        for callee, per_request in callees.items():
            visits[callee] = visits.get(callee, 0.0) + per_request
    latency: dict[str, list[float]] = {}
    for window in profile.windows:
        if not window.stressor and not window.invalid and window.mean_ms > 0:
            latency.setdefault(window.service, []).append(window.mean_ms)
    slowdowns = {}
    for caller, callees in calls.items():
        for callee, per_request in callees.items():
            if caller in latency and per_request > 0:
                longer_ms = between_ms * per_request / (visits.get(caller) or 1.0)  # nobody is seen to call it
                slowdowns[caller, callee] = math.log1p(longer_ms / statistics.median(latency[caller]))
    return slowdowns


def costs_of_calls(
    profile: Profile | None, domains: Domains, placed: Collection[str]
) -> Mapping[str, Mapping[str, float]]:
    """Return service -> attributes for placement solvers that say what its calls cost; none on one machine.

    ``placed``: services with a parameter for their host; the others are where application.yaml has them.
    """
    if profile is None or domains.between_ms <= 0:
        return {}
    costs: dict[str, dict[str, float]] = {}
    for (caller, callee), slowdown in slowdowns_of_calls(profile, domains.between_ms, domains.entry).items():
        if caller in placed and callee in placed:
            costs.setdefault(caller, {})[f"{REMOTE}{callee}"] = slowdown
            continue
        for moves, stays in ((caller, callee), (callee, caller)):
            if moves in placed and stays in domains.at:
                own = costs.setdefault(moves, {})
                for domain in domains.names:
                    if domain != domains.at[stays]:
                        own[f"{COST}{domain}"] = own.get(f"{COST}{domain}", 0.0) + slowdown
    return costs
