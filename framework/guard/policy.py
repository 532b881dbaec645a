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
    fields = ("running", "cores", "ways", "mbps", "exclusive", "paused", "bandwidth", "disk_mbs")
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


def rest_of(capacity: float, share: float, used: float | None) -> float:
    """Return a share of a link or a disk, less what LC uses of it; nothing where that is missing.

    The rule is the thesis's for the link (chapter 4).
    """
    return max(0.0, share * capacity - (capacity if used is None else used))


def rest_of_disk(host: GuardedHost, share: float, sample: Sample) -> float | None:
    """Return what ``rest_of`` leaves of a disk; None where it is not divided."""
    return rest_of(host.disk_mbs, share, sample.lc_disk_mbs) if host.disk_mbs else None


def part_of_disk(host: GuardedHost, share: float) -> float | None:
    """Return a fixed share of a disk; None where it is not divided."""
    return share * host.disk_mbs if host.disk_mbs else None
