"""Whether the swarm, or the disk, is at fault where a trial failed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from docker.errors import DockerException

from framework.errors import MissingPrerequisite, TestbedUnavailable
from framework.testbeds.docker.connection import Connection
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.full_disk import check_disk, has_room
from framework.testbeds.swarm.fleet import Node, Swarm, clock_ahead_s
from framework.testbeds.swarm.images import Images
from framework.testbeds.swarm.manager import Manager
from framework.testbeds.swarm.members import Members
from framework.testbeds.swarm.way_in import WayIn


class PretendEngine:
    """An engine with one container of Tailor's."""

    def __init__(self, running: bool | None) -> None:
        self.running = running

    def inspect(self, container: str) -> Any:
        return None if self.running is None else {"State": {"Running": self.running}}


def node(number: int, running: bool | None = True) -> Node:
    engine = cast(Engine, PretendEngine(running))
    return Node(f"host{number}", f"id{number}", f"name{number}", "10.0.0.1", f"unix:///{number}", engine)


def members(*later: Swarm) -> Members:
    """Return members whose swarm is discovered as these, one after the other."""
    known = Members([], None, lambda listed: listed)
    answers = list(later)
    known.answering = lambda: answers.pop(0)  # type: ignore[method-assign]
    return known


class PretendManager:
    """A manager whose events are given."""

    endpoint = "unix:///1"

    def __init__(self, events: Sequence[dict[str, Any]] = ()) -> None:
        self.stream: Any = (event for event in events)

    def node_events(self) -> Any:
        return self.stream


class Endless:
    """A stream without an event, until its engine ends; it cannot be closed."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def __iter__(self) -> Any:
        self.ended.wait(30)
        return iter(())

    def close(self) -> None:
        raise DockerException("this stream cannot be cancelled")


def event(node: str, state: str | None) -> dict[str, Any]:
    return {"Type": "node", "Actor": {"ID": node, "Attributes": {"state.new": state} if state else {"name": "vm"}}}


def swarm(*nodes: Node, lost: Sequence[str] = (), events: Sequence[dict[str, Any]] = ()) -> Swarm:
    return Swarm(cast(Manager, PretendManager(events)), nodes, tuple(lost))


@pytest.mark.parametrize(("state", "lost"), [("down", True), ("disconnected", True), ("ready", False), (None, False)])
def test_a_node_that_is_back_was_lost_all_the_same(state: str | None, lost: bool) -> None:
    both = (node(1), node(2))
    there = members(swarm(*both, events=[event("id2", state), event("id2", "ready")]), swarm(*both))
    there.watch()
    assert there._losses is not None
    there._losses._thread.join(5)
    if not lost:
        there.check()
        return
    with pytest.raises(TestbedUnavailable, match=r"had lost node host2 .*during the trial"):
        there.check()
    there.unwatch()


def test_one_watch_follows_all_deployments_of_a_study() -> None:
    """A stream of events that cannot be closed stays: a new one for each deployment would stay too."""
    manager = PretendManager()
    manager.stream = Endless()
    there = members(*[Swarm(cast(Manager, manager), (node(1), node(2)))] * 4)
    there.watch()
    first = there._losses
    assert first is not None
    first.lost.add("id2")
    there.forget()
    there.watch()
    assert there._losses is first
    there.check()  # what was lost before does not count
    manager.stream.ended.set()
    first._thread.join(5)
    there.forget()
    there.watch()
    assert there._losses is not first, "its engine had gone: it follows another stream"
    there.unwatch()


def test_a_node_that_its_managers_do_not_see_is_lost_although_its_engine_answers() -> None:
    there = members(swarm(node(1), replace(node(2), state="down")))
    with pytest.raises(TestbedUnavailable, match=r"host2 \(unix:///2\) \(down\)"):
        there.swarm  # noqa: B018 - asked for its error


def test_an_engine_that_does_not_answer_is_lost() -> None:
    there = members(swarm(node(1), lost=["unix:///2 does not answer"]))
    with pytest.raises(TestbedUnavailable, match="unix:///2"):
        there.check()


@pytest.mark.parametrize(("running", "lost"), [(True, False), (False, True), (None, True)])
def test_tailors_own_container_tells_that_an_engine_was_started_again(running: bool | None, lost: bool) -> None:
    way_in = WayIn(None)
    way_in.check([node(1, running=None)])  # nothing is deployed
    way_in._agents["id1"] = "agent"
    if not lost:
        way_in.check([node(1, running)])
        return
    with pytest.raises(TestbedUnavailable, match=r"host1 .* was started again"):
        way_in.check([node(1, running)])


@pytest.mark.parametrize(
    ("failure", "room", "full"),
    [
        ("db: its container exited with 1\n  | PANIC: could not write: No space left on device", False, True),
        ("db: its container exited with 1\n  | could not resize shared memory: No space left on device", True, False),
        ("the engine could not start: mkdir /var: no space left on device", True, True),
        ("db: its container exited with 137", False, False),
        ("", False, False),
    ],
)
def test_a_full_disk_is_told_by_the_kernel_s_words(failure: str, room: bool, full: bool) -> None:
    if not full:
        check_disk(failure, lambda: room)
        return
    with pytest.raises(TestbedUnavailable, match=r"(?i)disk of the testbed is full: .*no space left"):
        check_disk(failure, lambda: room)


def test_a_disk_has_room(tmp_path: Path) -> None:
    assert has_room(str(tmp_path))
    assert has_room("/nowhere/on/this/machine"), "it is on another one"


@pytest.mark.parametrize(
    ("told", "ahead_s"),
    [
        ("2026-11-29T10:00:00.5Z", 0.0),  # within the call
        ("2026-11-29T10:00:03Z", 2.0),
        ("2026-11-29T09:59:58.5Z", -1.5),
        ("2026-11-29T12:00:00.5+02:00", 0.0),
        ("None", None),
    ],
)
def test_a_clock_is_ahead_by_what_the_call_cannot_explain(told: str, ahead_s: float | None) -> None:
    began_s = datetime.fromisoformat("2026-11-29T10:00:00Z").timestamp()
    told_s = clock_ahead_s(told, began_s, began_s + 1.0)
    assert told_s == (None if ahead_s is None else pytest.approx(ahead_s))


def test_a_clock_that_is_off_is_told() -> None:
    assert not replace(node(1), clock_s=0.004).clock_is_off
    assert not node(1).clock_is_off
    assert "2.00 s ahead of" in replace(node(1), clock_s=2.0).clock_is_off
    assert "0.30 s behind" in replace(node(1), clock_s=-0.3).clock_is_off


class PretendImages:
    """An engine with one image."""

    def __init__(self, image: str) -> None:
        self.id = image

    def image(self, name: str) -> dict[str, str]:
        return {"Id": self.id}


def test_a_study_keeps_the_image_that_it_began_with() -> None:
    source, there = PretendImages("sha256:1"), PretendImages("sha256:1")
    place = Node("a", "id1", "name", "10.0.0.1", "unix:///1", cast(Engine, there))
    images = Images(cast(Engine, source), cast(Connection, None))
    assert images.distribute({"id1": {"shop:1"}}, [place], lambda step: None) == {"shop:1": "sha256:1"}
    source.id = "sha256:2"  # built again in the middle of the study
    assert images.distribute({"id1": {"shop:1"}}, [place], lambda step: None) == {"shop:1": "sha256:1"}
    with pytest.raises(MissingPrerequisite, match="another image of the name shop:1"):
        Images(cast(Engine, source), cast(Connection, None)).distribute({"id1": {"shop:1"}}, [place], lambda step: None)
