"""Power by the utilisation of the CPUs and two numbers, idle and full watts: where there is no meter."""

from __future__ import annotations

import math

from framework.energy.power_catalogue import curve_for, curve_in
from framework.energy.processor import Processor, read_processor
from framework.energy.zones import MACHINE
from framework.errors import KnobRefused
from framework.model.energy import CpuTimes, Joules, Label, PowerCurve
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.power.counted import CountedSource
from framework.testbeds.host.power.registry import SOURCES, Surroundings

CPUINFO = "/proc/cpuinfo"


class CurveSource(CountedSource):
    """Watts of a curve at the utilisation since the reading before; implements ``framework.ports.energy.PowerSource``.

    ``curve``: None where nothing is known; then ``lack`` says of what.  ``zone``: that the curve is of.
    """

    label: Label = "estimated"

    def __init__(self, name: str, curve: PowerCurve | None, lack: str = "", zone: str = MACHINE) -> None:
        super().__init__()
        self.name = name
        self.curve, self._lack, self._zone = curve, lack, zone
        self._before = CpuTimes()

    def missing(self) -> str:
        return "" if self.curve is not None else self._lack

    def about(self) -> str:
        if self.curve is None:
            return "nothing"
        curve = self.curve
        return (
            f"{curve.idle_w:.3g} to {curve.full_w:.3g} W by the CPUs' utilisation: {curve.source}; "
            f"right within a factor of {math.exp(curve.error):.1f} (95 %)"
        )

    def look(self, at_s: float, seconds: float | None, cpu: CpuTimes) -> dict[str, Joules]:
        if self.curve is None:
            raise KnobRefused(CPUINFO, self._lack)
        before, self._before = self._before, cpu
        if seconds is None:
            return {self._zone: Joules.exactly(0.0)}
        joules = self.curve.watts(cpu.since(before).utilisation) * seconds
        factor = math.exp(self.curve.error)
        return {self._zone: Joules(joules, joules / factor, joules * factor)}


def processor_here(files: KernelFiles) -> Processor:
    """Return the processor of this machine.  Where the kernel does not show it, nothing is known of it."""
    try:
        return read_processor(files.read(CPUINFO))
    except KnobRefused:
        return Processor("")


@SOURCES.register("curve")
def curve(argument: str, here: Surroundings) -> CurveSource:
    """Return the source of idle and full watts, or of this machine's processor in the catalogue.  Raises FieldError."""
    if argument.strip():
        return CurveSource("curve", curve_in(argument.strip()))
    processor = processor_here(here.files)
    name = processor.name or "a processor that hides its name"
    lack = f"nothing is known of the power of servers with {name}: give this machine's, as curve:IDLE,FULL in watts"
    return CurveSource("curve", curve_for(processor), lack)
