"""Who slows the application down: its profile (`tailor profile`) against what jobs demand.

A job that demands as much of a resource as so many threads of the profiler's stressor slows a service down by
exp(sensitivity x demand) (``framework.placement.interference.sensitivities``); what a service costs a request is its
share of the critical path.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from framework.errors import InputError
from framework.guard.policy import Policy
from framework.model.batch_job import JobSpec
from framework.placement.interference import sensitivities
from framework.placement.profile import Profile
from framework.placement.slowdowns import losses

LEAST_SHARE = 0.01  # of the critical path, below which a service need not be protected


def blame(profile: Profile, specs: Iterable[JobSpec]) -> dict[str, float]:
    """Return kind of job -> by how much it makes the critical path longer; 0.2 is a fifth.

    Services that were not profiled count as insensitive.  Jobs of one kind are as bad as the worst of them.
    """
    sensitive = sensitivities(losses(profile.windows))
    blamed: dict[str, float] = {}
    for spec in specs:
        longer = sum(
            share * (math.exp(_exponent(sensitive.get(service, {}), spec.demands)) - 1)
            for service, share in profile.about.critical_path.items()
        )
        kind = spec.kind or spec.name
        blamed[kind] = max(blamed.get(kind, 0.0), longer)
    return blamed


def _exponent(sensitivity: Mapping[str, float], demands: Mapping[str, float]) -> float:
    return sum(slope * demands.get(resource, 0.0) for resource, slope in sensitivity.items())


def on_the_critical_path(profile: Profile) -> frozenset[str]:
    """Return the services that have a share of the critical path worth protecting.

    Raises InputError for a profile of an older version, which does not know the path.
    """
    services = frozenset(name for name, share in profile.about.critical_path.items() if share >= LEAST_SHARE)
    if not services:
        raise InputError(
            f"the profile of {profile.about.application} does not say which services are on the critical path; "
            "allowed: one that was measured by this version (`tailor profile`, begun anew)"
        )
    return services


def with_blame(policy: Policy, blamed: Mapping[str, float]) -> Policy:
    """Return the policy that knows whom to blame; one that blames nobody is returned as it is."""
    described: Any = policy
    if all(field.name != "blame" for field in fields(described)):
        return policy
    other: Policy = replace(described, blame=dict(blamed))
    return other
