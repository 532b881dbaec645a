"""No best-effort work at all."""

from __future__ import annotations

from dataclasses import dataclass

from framework.guard.policy import POLICIES
from framework.model.guard import NOTHING, Decision, GuardedHost, Sample


@POLICIES.register("off")
@dataclass(frozen=True, slots=True)
class Off:
    """BE stands still whatever happens."""

    period_s: float = 10.0

    def start(self, host: GuardedHost) -> None:
        return None

    def decide(self, host: GuardedHost, state: None, sample: Sample) -> tuple[None, Decision]:
        return None, Decision(NOTHING)
