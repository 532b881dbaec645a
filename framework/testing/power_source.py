"""Contract kit of power sources: what every one of them must do, whatever it reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, get_args

from framework.energy.zones import whole
from framework.model.energy import MOST_WATTS, CpuTimes, Joules, Label
from framework.ports.energy import PowerSource

STEP_S = 1.0
WATTS = 100.0
ROOM = 0.02  # by which counters of microjoules and straight lines may differ


class PowerWorld(Protocol):
    """A pretended machine with a power source."""

    def source(self) -> PowerSource:
        """Return the source, opened."""

    def lacking(self) -> PowerSource:
        """Return the source on a machine that lacks what it needs."""

    def run(self, seconds: float, watts: float) -> tuple[float, CpuTimes]:
        """Let time pass, in which the machine takes power as far as it can be made to.

        Returns the monotonic time and the CPU times then.
        """

    def spoil(self) -> None:
        """Make the source unreadable."""

    def mend(self) -> None:
        """Make it readable again."""


class PowerSourceContract:
    """Tests of a power source; a subclass says on which machine.

    ``meters``: whether it tells the watts that the machine takes.  ``fails``: whether it can become unreadable.
    """

    name: str
    meters = True
    fails = True

    def world(self, directory: Path) -> PowerWorld:
        raise NotImplementedError

    def test_its_name_and_its_label(self, tmp_path: Path) -> None:
        source = self.world(tmp_path).source()
        assert source.name == self.name
        assert source.label in get_args(Label)
        source.close()

    def test_it_says_what_is_missing_in_one_sentence(self, tmp_path: Path) -> None:
        world = self.world(tmp_path)
        assert world.source().missing() == ""
        missing = world.lacking().missing()
        assert missing == missing.strip().rstrip(".")
        assert len(missing.split()) > 3
        assert "\n" not in missing

    def test_it_says_what_it_rests_on_in_one_line(self, tmp_path: Path) -> None:
        about = self.world(tmp_path).source().about()
        assert about.strip() == about != ""
        assert "\n" not in about

    def test_the_first_reading_is_zero_and_names_the_zones(self, tmp_path: Path) -> None:
        world = self.world(tmp_path)
        first = world.source().read(*world.run(STEP_S, WATTS))
        assert first
        assert set(first.values()) == {Joules.exactly(0.0)}

    def test_joules_never_shrink(self, tmp_path: Path) -> None:
        world = self.world(tmp_path)
        source = world.source()
        before = source.read(*world.run(STEP_S, WATTS))
        for step in range(20):
            now = source.read(*world.run(STEP_S if step % 5 else 0.0, WATTS * (step % 3)))
            assert now.keys() == before.keys()
            for zone, joules in now.items():
                assert joules.value >= before[zone].value
                assert joules.low <= joules.value <= joules.high
            before = now
        assert machine(before) > 0

    def test_a_meter_tells_the_power(self, tmp_path: Path) -> None:
        if not self.meters:
            return
        world = self.world(tmp_path)
        source = world.source()
        source.read(*world.run(STEP_S, WATTS))
        total = 0.0
        for _ in range(30):
            total = machine(source.read(*world.run(STEP_S, WATTS)))
        assert abs(total / (30 * STEP_S * WATTS) - 1) < ROOM

    def test_it_tells_nothing_while_it_is_unreadable_and_begins_anew(self, tmp_path: Path) -> None:
        if not self.fails:
            return
        world = self.world(tmp_path)
        source = world.source()
        source.read(*world.run(STEP_S, WATTS))
        before = machine(source.read(*world.run(STEP_S, WATTS)))
        world.spoil()
        assert source.read(*world.run(STEP_S, WATTS)) == {}
        assert source.read(*world.run(STEP_S, WATTS)) == {}
        world.mend()
        again = machine(source.read(*world.run(STEP_S, WATTS)))
        assert again == before, "joules of the time in which it could not be read are not known"
        assert machine(source.read(*world.run(STEP_S, WATTS))) > again

    def test_a_power_that_no_machine_takes_is_refused(self, tmp_path: Path) -> None:
        if not self.meters:
            return
        world = self.world(tmp_path)
        source = world.source()
        source.read(*world.run(STEP_S, WATTS))
        before = machine(source.read(*world.run(STEP_S, WATTS)))
        assert source.read(*world.run(STEP_S, 2.5 * MOST_WATTS)) == {}
        source.read(*world.run(STEP_S, WATTS))
        after = machine(source.read(*world.run(STEP_S, WATTS)))
        assert after - before <= 3 * STEP_S * WATTS * (1 + ROOM)

    def test_it_closes(self, tmp_path: Path) -> None:
        source = self.world(tmp_path).source()
        source.close()
        source.close()


def machine(joules: Mapping[str, Joules]) -> float:
    """Return the joules of the whole machine; raises AssertionError where there are none."""
    total = whole(joules)
    assert total is not None, "a reading without joules"
    return total.value
