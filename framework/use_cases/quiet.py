"""A quiet machine: how much of it other processes take before a study begins, and waiting until they take less."""

from __future__ import annotations

from collections.abc import Callable

from framework.bench import Backends
from framework.model import Configuration, Deployment, Running, Study

LOADED = 0.1
"""Share of the machine's CPU time that other processes may take before it is worth a word."""

SAMPLE_S = 1.0
NOTHING = Running(Deployment("", "", Configuration({}), {}, {}), "", {})


def share_of_others(backends: Backends, study: Study, seconds: float = SAMPLE_S) -> float | None:
    """Share of the machine's CPU time that processes other than this one take now, sampled for so long.

    None where the study's numbers are modelled, or its testbed cannot be looked at without an application.
    """
    kind = backends.kind(study.testbed)
    if kind.modelled or kind.manage is None:
        return None
    testbed = kind.manage({})
    before = testbed.usage(NOTHING)
    backends.clock.sleep(seconds)
    after = testbed.usage(NOTHING)
    elapsed_s = (after.at_ns - before.at_ns) / 1e9
    busy_s = (after.host_cpu_s - before.host_cpu_s) - (after.tailor_cpu_s - before.tailor_cpu_s)
    return max(0.0, busy_s / (elapsed_s * after.cores)) if elapsed_s > 0 else None


def wait_until_quiet(backends: Backends, study: Study, report: Callable[[float], None]) -> None:
    """Return when other processes take no more than ``LOADED``; ``report`` is told their share at each sample."""
    while (share := share_of_others(backends, study)) is not None and share > LOADED:
        report(share)
        backends.clock.sleep(SAMPLE_S)
