"""Contract of a policy, and what policies share.

A policy is a frozen dataclass of constants.  ``start`` returns its first state; ``decide`` maps a state and a sample
to the next state and the setting that is wanted.  Both are pure: the policy itself holds nothing that changes.
"""

from __future__ import annotations

from typing import Any, Protocol

from framework.model.guard import Decision, GuardedHost, Sample, Setting
from framework.registry import Registry


class Policy(Protocol):
    """Decides on samples.  ``period_s``: between two samples that it wants.  Its state: any frozen value."""

    @property
    def period_s(self) -> float: ...

    def start(self, host: GuardedHost) -> Any:
        """Return the first state: BE stands still."""
        ...

    def decide(self, host: GuardedHost, state: Any, sample: Sample) -> tuple[Any, Decision]:
        """Return the next state and what is wanted now.  A missing latency counts as a violation.  Never raises.

        ``sample`` is a cleaned one (``Sample.cleaned``).
        """
        ...


POLICIES: Registry[Any] = Registry("policy", "tailor.policies", "framework.guard.policies")
"""Name -> class of a policy, whose fields are its options."""


def changes(before: Setting, after: Setting, reason: str) -> dict[str, str]:
    """Return the fields in which two settings differ, each with the reason."""
    fields = ("running", "cores", "ways", "mbps", "exclusive", "paused", "bandwidth")
    return {name: reason for name in fields if getattr(before, name) != getattr(after, name)}


def first_setting(host: GuardedHost) -> Setting:
    """Return the least with which BE runs: one core, and one way where the cache is divided."""
    return Setting(True, 1, min(1, most_ways(host)))


def most_cores(host: GuardedHost) -> int:
    """Return the most cores that BE may have: LC keeps one."""
    return host.cores - 1


def most_ways(host: GuardedHost) -> int:
    """Return the most cache ways that BE may have: LC keeps two, the least that some machines accept."""
    return max(0, host.ways - 2)
