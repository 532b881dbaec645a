"""Readings that something else appends to a CSV file."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import FieldError
from framework.model.energy import MOST_WATTS, CpuTimes, Joules
from framework.ports.energy import PowerSource
from framework.testbeds.host.power.csv_file import STALE_S, CsvFileSource
from framework.testbeds.host.power.opening import open_source
from framework.testing.power_source import PowerSourceContract, PowerWorld
from tests.power_machine import PretendMachine
from tests.spoilt_files import PEOPLE


class Plug:
    """A plug's program that appends a line at every step."""

    def __init__(self, directory: Path) -> None:
        self.machine, self.writes = PretendMachine(directory), True
        self.path = directory / "plug.csv"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("time,watts,volts\n")
        self.append(f"{self.machine.now()},5,230\n")

    def append(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def source(self) -> PowerSource:
        return open_source(f"csv:{self.path}", self.machine.surroundings())

    def lacking(self) -> PowerSource:
        return open_source(f"csv:{self.path}.no", self.machine.surroundings())

    def run(self, seconds: float, watts: float) -> tuple[float, CpuTimes]:
        at = self.machine.pass_time(seconds)
        if self.writes:
            self.append(f"{self.machine.now()},{watts},230\n")
        return at

    def spoil(self) -> None:
        self.writes = False
        self.machine.pass_time(STALE_S)

    def mend(self) -> None:
        self.writes = True


class TestCsv(PowerSourceContract):
    name = "csv"

    def world(self, directory: Path) -> PowerWorld:
        return Plug(directory)

    def test_a_power_that_no_machine_takes_is_refused(self, tmp_path: Path) -> None:
        """Such a line is no reading: the one before it counts until it is old."""
        world = Plug(tmp_path)
        source = world.source()
        source.read(*world.run(1, 100))
        assert source.read(*world.run(1, 2.5 * MOST_WATTS)) == {"machine": Joules.exactly(100.0)}


@pytest.mark.parametrize("form", ["{:.3f}", "iso", "iso-utc", "iso-zone"])
def test_times_are_seconds_or_iso_8601(tmp_path: Path, form: str) -> None:
    machine = PretendMachine(tmp_path)
    now = machine.now() - 1
    local, utc = datetime.datetime.fromtimestamp(now), datetime.datetime.fromtimestamp(now, datetime.UTC)
    text = {
        "iso": local.isoformat(), "iso-utc": utc.isoformat().replace("+00:00", "Z"),
        "iso-zone": utc.astimezone(datetime.timezone(datetime.timedelta(hours=5))).isoformat(),
    }.get(form, form.format(now))  # fmt: skip
    (tmp_path / "plug.csv").write_text(f'"{text}", 42.5\n')
    source = open_source(f"csv:{tmp_path / 'plug.csv'}", machine.surroundings())
    assert source.missing() == ""
    source.read(*machine.pass_time(1))
    assert source.read(*machine.pass_time(2)) == {"machine": Joules.exactly(85.0)}


@pytest.mark.parametrize("age_s", [STALE_S + 1, -STALE_S - 1, 1e9])
def test_an_old_reading_is_missing_and_never_zero(tmp_path: Path, age_s: float) -> None:
    machine = PretendMachine(tmp_path)
    (tmp_path / "plug.csv").write_text(f"{machine.now() - age_s},42\n")
    source = open_source(f"csv:{tmp_path / 'plug.csv'}", machine.surroundings())
    assert f"at most {STALE_S:g} s" in source.missing()
    assert source.read(machine.at_s, CpuTimes()) == {}


def test_a_line_without_its_end_is_not_read_yet(tmp_path: Path) -> None:
    plug = Plug(tmp_path)
    source = plug.source()
    source.read(*plug.run(1, 100))
    plug.writes = False
    plug.append(f"{plug.machine.now()},9")
    assert source.read(*plug.run(1, 0)) == {"machine": Joules.exactly(100.0)}
    plug.append("9\n")
    assert source.read(*plug.run(1, 0)) == {"machine": Joules.exactly(199.5)}


def test_the_end_of_a_large_file_is_read_only(tmp_path: Path) -> None:
    plug = Plug(tmp_path)
    plug.append("1,1\n" * 100_000)
    source = plug.source()
    source.read(*plug.run(1, 100))
    assert source.read(*plug.run(1, 100)) == {"machine": Joules.exactly(100.0)}


def test_a_file_has_a_name(tmp_path: Path) -> None:
    with pytest.raises(FieldError, match="csv:FILE"):
        open_source("csv:", PretendMachine(tmp_path).surroundings())


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    assert "a directory" in CsvFileSource(tmp_path, lambda: 0.0).missing()


@settings(PEOPLE, max_examples=100)
@given(content=st.one_of(st.binary(max_size=200), st.text("0123456789.,\n-:TZeinfa", max_size=200).map(str.encode)))
def test_a_hostile_file_gives_no_absurd_number(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plug.csv"
    path.write_bytes(content)
    source = CsvFileSource(path, lambda: 1e9)
    for second in range(3):
        for joules in source.read(float(second), CpuTimes()).values():
            assert 0 <= joules.value <= MOST_WATTS * 3
