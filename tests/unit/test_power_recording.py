"""A recording made before, replayed by the time since the first reading."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import FieldError, FileError
from framework.model.energy import CpuTimes, Joules
from framework.ports.energy import PowerSource
from framework.testbeds.host.power.opening import open_source
from framework.testbeds.host.power.recording import RecordingSource, read_recording
from framework.testing.power_source import PowerSourceContract, PowerWorld
from tests.power_machine import PretendMachine
from tests.spoilt_files import PEOPLE

TWO_ZONES = "time_s,watts,zone\n" + "".join(f"{t},{100 + t},package-0\n{t},10,dram-0\n" for t in range(100))


class Recorded:
    """A recording is what it is: neither what the machine takes nor a fault changes it."""

    def __init__(self, directory: Path) -> None:
        self.machine = PretendMachine(directory)
        self.machine.write("watts.csv", TWO_ZONES)

    def source(self) -> PowerSource:
        return open_source(f"recording:{self.machine.root / 'watts.csv'}", self.machine.surroundings())

    def lacking(self) -> PowerSource:
        raise NotImplementedError

    def run(self, seconds: float, watts: float) -> tuple[float, CpuTimes]:
        return self.machine.pass_time(seconds)

    def spoil(self) -> None:
        raise NotImplementedError

    def mend(self) -> None:
        raise NotImplementedError


class TestRecording(PowerSourceContract):
    name = "recording"
    meters = fails = False

    def world(self, directory: Path) -> PowerWorld:
        return Recorded(directory)

    def test_it_says_what_is_missing_in_one_sentence(self, tmp_path: Path) -> None:
        """A file that is not there is refused at once: nothing of the machine can be missing."""
        assert self.world(tmp_path).source().missing() == ""


def recording(directory: Path, text: str) -> Path:
    path = directory / "watts.csv"
    path.write_text(text)
    return path


def test_power_goes_in_a_straight_line_between_rows_of_a_zone(tmp_path: Path) -> None:
    world = Recorded(tmp_path)
    source = world.source()
    source.read(*world.run(1, 0))
    assert source.label == "recorded"
    assert source.read(*world.run(2.5, 0)) == {
        "package-0": Joules.exactly(100 * 2.5 + 2.5**2 / 2),
        "dram-0": Joules.exactly(25.0),
    }


def test_without_a_zone_it_is_of_the_machine_and_may_begin_at_any_time(tmp_path: Path) -> None:
    source = RecordingSource(recording(tmp_path, "\ufefftime_s, watts\n1700000000,50\n1700000010,50\n"))
    source.read(3.0, CpuTimes())
    assert source.read(7.0, CpuTimes()) == {"machine": Joules.exactly(200.0)}
    assert "a recording of 10 s (watts.csv): machine" in source.about()


def test_after_its_end_there_is_nothing(tmp_path: Path) -> None:
    source = RecordingSource(recording(tmp_path, "time_s,watts\n0,50\n2,50\n"))
    source.read(0.0, CpuTimes())
    assert source.read(2.0, CpuTimes()) == {"machine": Joules.exactly(100.0)}
    assert source.read(2.5, CpuTimes()) == {}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "line 1"),
        ("time,power\n1,2\n", "line 1"),
        ("time_s,watts\n1,2\n", "at least two"),
        ("time_s,watts\n1,2\n1,3\n", "time_s"),
        ("time_s,watts\n2,2\n1,3\n", "time_s"),
        ("time_s,watts\nnan,2\n1,3\n", "time_s"),
        ("time_s,watts\n1,-2\n2,3\n", "watts"),
        ("time_s,watts\n1,nan\n2,3\n", "watts"),
        ("time_s,watts\n1,10000\n2,3\n", "watts"),
        ("time_s,watts\n1,a\n2,3\n", "watts"),
        ("time_s,watts\n1\n2,3\n", "watts"),
        ("time_s,watts,zone\n1,2,a\n2,3,b\n", "at least two"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_with_its_line(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(FileError, match=where):
        read_recording(recording(tmp_path, text))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "watts.csv"
    path.write_bytes(b"time_s,watts\n1,\xff\n")
    with pytest.raises(FileError, match="UTF-8"):
        read_recording(path)


def test_a_recording_has_a_name(tmp_path: Path) -> None:
    here = PretendMachine(tmp_path).surroundings()
    with pytest.raises(FieldError, match="recording:FILE"):
        open_source("recording", here)
    with pytest.raises(FileError, match="no such file"):
        open_source(f"recording:{tmp_path / 'nowhere.csv'}", here)


@settings(PEOPLE, max_examples=100)
@given(text=st.text('0123456789.,\n"-einfatzones_w', max_size=200))
def test_a_hostile_file_is_refused_or_replayed(tmp_path: Path, text: str) -> None:
    path = recording(tmp_path, "time_s,watts\n" + text)
    try:
        source = RecordingSource(path)
    except FileError:
        return
    before = 0.0
    for second in range(10):
        for joules in source.read(float(second), CpuTimes()).values():
            assert joules.value >= before
            before = joules.value
