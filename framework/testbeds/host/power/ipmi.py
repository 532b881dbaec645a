"""IPMI: the power of the whole server by its management controller, which ``ipmitool dcmi power reading`` asks.

Source: Data Center Manageability Interface Specification 1.5, section 6.6.1 (Get Power Reading).
"""

from __future__ import annotations

import re

from framework.energy.zones import MACHINE
from framework.errors import FieldError, KnobRefused
from framework.model.energy import CpuTimes, Joules, Label
from framework.testbeds.host.power.commands import NOT_THERE
from framework.testbeds.host.power.counted import CountedSource, WattsOverTime
from framework.testbeds.host.power.registry import SOURCES, Surroundings

COMMAND = ("ipmitool", "dcmi", "power", "reading")
EVERY_S = 4.0
"""Between two questions: controllers measure anew every few seconds, and a question costs a process."""

_WATTS = re.compile(r"Instantaneous power reading:\s*(\d{1,9}) Watts")
_STATE = re.compile(r"Power reading state is:\s*(\w+)")
SHOWN = 200  # characters of an odd answer


class IpmiSource(CountedSource):
    """Readings of the management controller; implements ``framework.ports.energy.PowerSource``."""

    name = "ipmi"
    label: Label = "measured"
    lag_s = EVERY_S

    def __init__(self, here: Surroundings) -> None:
        super().__init__()
        self._run = here.run
        self._over_time = WattsOverTime()
        self._last: tuple[float, float] | None = None

    def missing(self) -> str:
        try:
            self._asked()
        except KnobRefused as error:
            return f"{error.knob}: {error.reason}"
        return ""

    def about(self) -> str:
        return "power of the whole server by its management controller (IPMI), asked every few seconds"

    def look(self, at_s: float, seconds: float | None, cpu: CpuTimes) -> dict[str, Joules]:
        if self._last is None or seconds is None or not 0 <= at_s - self._last[0] < EVERY_S:
            self._last = at_s, self._asked()
        return self._over_time.joules(seconds, {MACHINE: self._last[1]})

    def _asked(self) -> float:
        """Return the server's watts now.  Raises KnobRefused."""
        said = self._run(COMMAND)
        text = said.text.strip()
        if said.status:
            remedy = " (Debian: apt-get install ipmitool)" if said.status == NOT_THERE else ""
            raise KnobRefused("IPMI", (text.splitlines() or [f"exit status {said.status}"])[0][:SHOWN] + remedy)
        watts, state = _WATTS.search(text), _STATE.search(text)
        if watts is None or int(watts[1]) == 0 or (state is not None and state[1] != "activated"):
            raise KnobRefused("IPMI", f"the controller tells no power: {' '.join(text.split())[:SHOWN]}")
        return float(watts[1])


@SOURCES.register("ipmi")
def ipmi(argument: str, here: Surroundings) -> IpmiSource:
    """Return the source; it takes no argument.  Raises FieldError."""
    if argument:
        raise FieldError("power", f"ipmi:{argument}", "ipmi, without an argument")
    return IpmiSource(here)
