"""Contract kit of the guard's actuators: what every one of them must do, on any machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from framework.errors import KnobRefused
from framework.model.guard import NOTHING, Setting
from framework.ports.actuator import Actuator

RUNNING = (
    Setting(True, 1, 2, 100.0, disk_mbs=20.0),
    Setting(True, 3, 6, 300.0, disk_mbs=90.0),
    Setting(True, 2, 4, 100.0, paused=frozenset({"stream"}), disk_mbs=90.0),
    Setting(True, 1.5, 1, 50.0, exclusive=False),
)
"""Settings with which BE runs, each of which differs from the one before in all that an actuator may set."""
MOST_WRITES = 200

Refuse = Callable[[str, str], str]
"""Asked with an operation (write, ...) and a path before it is done; a text refuses it."""


class ActuatorWorld(Protocol):
    """A pretended machine with LC and two jobs of BE, of the kinds stream and compute."""

    def actuator(self) -> Actuator:
        """Return an actuator, as a guard that starts makes it."""

    def lacking(self) -> Actuator:
        """Return an actuator on a machine that lacks what it needs."""

    def shown(self) -> object:
        """Return all that it may change: two equal answers mean that nothing was changed."""

    def watch(self, refuse: Refuse) -> None:
        """Ask before each operation from now on."""

    def end_job(self) -> None:
        """Let the job of kind stream end, and its group go."""

    def end(self) -> None:
        """End the jobs, and give everything back, as at the end of a guard."""


class ActuatorContract:
    """Tests of an actuator; a subclass says on which machine."""

    def world(self, directory: Path) -> ActuatorWorld:
        raise NotImplementedError

    def test_it_says_what_is_missing_in_one_sentence(self, tmp_path: Path) -> None:
        world = self.world(tmp_path)
        assert world.actuator().missing() == ""
        missing = world.lacking().missing()
        assert missing == missing.strip().rstrip(".")
        assert len(missing.split()) > 3
        assert "\n" not in missing

    def test_a_question_changes_nothing(self, tmp_path: Path) -> None:
        world = self.world(tmp_path)
        before, operations = world.shown(), list[str]()
        with _watching(world, lambda operation, path: operations.append(operation)):
            world.actuator().missing()
        assert set(operations) <= {"read"}
        assert world.shown() == before

    def test_only_what_differs_is_set(self, tmp_path: Path) -> None:
        world = self.world(tmp_path)
        actuator = world.actuator()
        for setting in (NOTHING, *RUNNING, NOTHING, *RUNNING):
            actuator.set(setting)
            writes = list[str]()
            with _watching(world, lambda operation, path, writes=writes: _noted(operation, path, writes)):  # type: ignore[misc]
                assert actuator.set(setting) == []
            assert writes == []

    def test_each_change_is_told(self, tmp_path: Path) -> None:
        world = self.world(tmp_path)
        actuator = world.actuator()
        for setting in (NOTHING, *RUNNING, NOTHING, *RUNNING):
            before = world.shown()
            changes = actuator.set(setting)
            assert bool(changes) or world.shown() == before
            assert all(change.knob and change.old != change.new for change in changes)

    def test_a_setting_does_not_depend_on_those_before(self, tmp_path: Path) -> None:
        for number, last in enumerate(RUNNING):
            fresh, worn = self.world(tmp_path / f"{number}-fresh"), self.world(tmp_path / f"{number}-worn")
            fresh.actuator().set(last)
            actuator = worn.actuator()
            for setting in (*RUNNING, NOTHING, last):
                actuator.set(setting)
            assert worn.shown() == fresh.shown()

    def test_a_refusal_has_a_reason_and_the_next_setting_is_whole(self, tmp_path: Path) -> None:
        for number in range(MOST_WRITES):
            world = self.world(tmp_path / str(number))
            actuator, refused, writes = world.actuator(), "", list[str]()

            def refuse(operation: str, path: str, number: int = number, writes: list[str] = writes) -> str:
                _noted(operation, path, writes)
                return "Device or resource busy" if operation == "write" and len(writes) == number + 1 else ""

            with _watching(world, refuse):
                try:
                    for setting in RUNNING[:2]:
                        actuator.set(setting)
                except KnobRefused as error:
                    refused = error.reason
            actuator.set(RUNNING[1])
            whole = self.world(tmp_path / f"{number}-whole")
            whole.actuator().set(RUNNING[1])
            assert world.shown() == whole.shown()
            if not refused:
                return
            assert "Device or resource busy" in refused
        raise AssertionError(f"more than {MOST_WRITES} writes for two settings")

    def test_a_job_that_ends_meanwhile_is_no_refusal(self, tmp_path: Path) -> None:
        for number in range(MOST_WRITES):
            world = self.world(tmp_path / str(number))
            actuator, operations = world.actuator(), list[str]()
            actuator.set(RUNNING[0])

            def end(operation: str, path: str, number: int = number, seen: list[str] = operations) -> str:
                seen.append(path)
                if len(seen) == number + 1:
                    world.end_job()  # noqa: B023 - called before the next world is made
                return ""

            with _watching(world, end):
                actuator.set(RUNNING[1])
            if len(operations) <= number:
                return
        raise AssertionError(f"more than {MOST_WRITES} operations for one setting")

    def test_everything_comes_back(self, tmp_path: Path) -> None:
        world = self.world(tmp_path / "used")
        actuator = world.actuator()
        for setting in (NOTHING, *RUNNING):
            actuator.set(setting)
        actuator.restore()
        actuator.restore()
        world.end()
        untouched = self.world(tmp_path / "untouched")
        untouched.end()
        assert world.shown() == untouched.shown()


@contextmanager
def _watching(world: ActuatorWorld, refuse: Callable[[str, str], object]) -> Iterator[None]:
    world.watch(lambda operation, path: str(refuse(operation, path) or ""))
    try:
        yield
    finally:
        world.watch(lambda operation, path: "")


def _noted(operation: str, path: str, writes: list[str]) -> None:
    if operation != "read":
        writes.append(path)
