"""Removal of what a stack had on a swarm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from framework.errors import DeploymentFailed
from framework.testbeds.docker.owner import Owner
from framework.testbeds.swarm.manager import Manager

OWNER = Owner.project("tailor-x")


class PretendSwarm:
    """A manager that learns of a removal some listings later, as one that does not lead does."""

    def __init__(self, late: int) -> None:
        self.late, self.removed = late, list[str]()

    def networks(self, filters: object) -> Sequence[dict[str, Any]]:
        listed = [
            {"Id": "1", "Name": "tailor-x_default", "Scope": "swarm", "Labels": {"tailor.project": "tailor-x"}},
            {"Id": "2", "Name": "own", "Scope": "swarm", "Labels": {"tailor.project": "tailor-y"}},
            {"Id": "3", "Name": "bridge", "Scope": "local", "Labels": {"tailor.project": "tailor-x"}},
        ]
        if "1" in self.removed:
            self.late -= 1
        return listed if self.late > 0 else listed[1:]

    def remove_network(self, number: str) -> None:
        self.removed.append(number)


def manager_of(swarm: PretendSwarm, leave_s: float = 30.0) -> Manager:
    manager = Manager("unix:///nowhere", leave_s)

    def ask(what: str, call: Callable[[Any], Any]) -> Any:
        return call(swarm)

    manager._ask = ask  # type: ignore[method-assign]
    return manager


def test_what_was_removed_is_waited_for_until_it_is_listed_no_more() -> None:
    swarm = PretendSwarm(late=3)
    assert manager_of(swarm).remove_networks(OWNER) == ["network tailor-x_default"]
    assert (swarm.removed, swarm.late) == (["1"], 0)


def test_what_stays_is_said() -> None:
    with pytest.raises(DeploymentFailed, match="still lists networks"):
        manager_of(PretendSwarm(late=1000), leave_s=0.3).remove_networks(OWNER)
