"""The management controller's power, as ipmitool prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.errors import FieldError
from framework.model.energy import CpuTimes, Joules
from framework.ports.energy import PowerSource
from framework.testbeds.host.power.commands import NO_ANSWER, NOT_THERE, CommandOutput, run
from framework.testbeds.host.power.ipmi import COMMAND, EVERY_S
from framework.testbeds.host.power.opening import open_source
from framework.testing.power_source import PowerSourceContract, PowerWorld
from tests.power_machine import PretendMachine

PRINTED = """
    Instantaneous power reading:                 {watts:5d} Watts
    Minimum during sampling period:                  8 Watts
    Maximum during sampling period:                468 Watts
    Average power reading over sample period:      216 Watts
    IPMI timestamp:                           11/28/26 22:14:03 UTC    Sampling period:          00000001 Seconds.
    Power reading state is:                   {state}

"""

BROKEN = CommandOutput(1, "Could not open device at /dev/ipmi0: No such file or directory")


def printed(watts: float, state: str = "activated") -> CommandOutput:
    return CommandOutput(0, PRINTED.format(watts=round(watts), state=state))


class Controller:
    """A controller that is asked each time: steps are longer than the pause between two questions."""

    def __init__(self, directory: Path) -> None:
        self.machine, self.broken = PretendMachine(directory), False
        self.machine.answer = printed(100)

    def source(self) -> PowerSource:
        return open_source("ipmi", self.machine.surroundings())

    def lacking(self) -> PowerSource:
        return open_source("ipmi", PretendMachine(self.machine.root).surroundings())

    def run(self, seconds: float, watts: float) -> tuple[float, CpuTimes]:
        self.machine.answer = BROKEN if self.broken else printed(watts or 1)
        return self.machine.pass_time(seconds and EVERY_S)

    def spoil(self) -> None:
        self.broken = True

    def mend(self) -> None:
        self.broken = False


class TestIpmi(PowerSourceContract):
    name = "ipmi"
    meters = False  # it is asked every few seconds; what it tells is tested below

    def world(self, directory: Path) -> PowerWorld:
        return Controller(directory)


def test_the_present_power_is_taken(tmp_path: Path) -> None:
    world = Controller(tmp_path)
    source = world.source()
    source.read(*world.run(1, 220))
    assert source.read(*world.run(1, 240)) == {"machine": Joules.exactly(230.0 * EVERY_S)}
    assert set(world.machine.commands) == {COMMAND}


def test_it_is_asked_every_few_seconds_only(tmp_path: Path) -> None:
    world = Controller(tmp_path)
    source = world.source()
    for _ in range(8):
        source.read(*world.machine.pass_time(1.0))
    assert len(world.machine.commands) == 2
    assert source.read(*world.machine.pass_time(1.0)) == {"machine": Joules.exactly(800.0)}


@pytest.mark.parametrize(
    "answer",
    [
        CommandOutput(NOT_THERE, "ipmitool is not installed"),
        CommandOutput(NO_ANSWER, "ipmitool does not answer within 5 s"),
        CommandOutput(1, ""),
        CommandOutput(0, ""),
        CommandOutput(0, "DCMI request failed because: Invalid command (c1)\n"),
        printed(220, state="deactivated"),
        printed(0),
        printed(99999),
        CommandOutput(0, "Instantaneous power reading: -4 Watts"),
        CommandOutput(0, "Instantaneous power reading: 99999999999 Watts"),
        CommandOutput(0, "Instantaneous power reading: nan Watts"),
        CommandOutput(0, "\0\xff" * 10_000),
    ],
)
def test_an_answer_without_a_power_is_none(tmp_path: Path, answer: CommandOutput) -> None:
    machine = PretendMachine(tmp_path)
    machine.answer = answer
    source = open_source("ipmi", machine.surroundings())
    assert source.read(*machine.pass_time(1)) == {}
    assert "\n" not in source.missing()


def test_it_takes_no_argument(tmp_path: Path) -> None:
    with pytest.raises(FieldError):
        open_source("ipmi:0", PretendMachine(tmp_path).surroundings())


def test_a_command_that_is_not_installed_is_a_status() -> None:
    output = run(["tailor-no-such-command"])
    assert output == CommandOutput(NOT_THERE, "tailor-no-such-command is not installed")


def test_a_command_says_what_it_prints() -> None:
    assert run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == CommandOutput(3, "out\nerr\n")
