"""Power of the processors by their thermal design power, cores and clock: the last resort."""

from __future__ import annotations

import math

from framework.energy.power_catalogue import tdp_of
from framework.energy.processor import Processor
from framework.energy.unseen import FITTED, UNSEEN_ERROR, Known, has_several_dies
from framework.errors import FieldError, KnobRefused
from framework.model.energy import MOST_WATTS
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.kernel_numbers import number_in
from framework.testbeds.host.power.curve import CurveSource, processor_here
from framework.testbeds.host.power.registry import SOURCES, Surroundings

CLOCKS = (
    ("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency", 1e-6),  # kHz, Intel's
    ("/sys/devices/system/cpu/cpu0/acpi_cppc/nominal_freq", 1e-3),  # MHz
)
"""Files with the nominal clock, and what makes them GHz."""
ZONE = "package-0"
ALLOWED = "tdp, or tdp:WATTS of a processor, or tdp:WATTS,CORES of one"
THREADS_OF_CORE = 2  # of a server's core whose hardware threads a virtual machine has as CPUs
MOST_CORES = 4096


def known_of(processor: Processor, files: KernelFiles, tdp_w: float | None, cores: float | None) -> Known | str:
    """Return the facts of the machine's processors, or its share of one; a sentence where one is not known.

    ``tdp_w``, ``cores``: of one processor, where the user gives them.
    """
    tdp_w = tdp_w if tdp_w is not None else tdp_of(processor.name)
    name = processor.name or "a processor that hides its name"
    if tdp_w is None:
        return f"the thermal design power of {name} is not in the list: give it, as tdp:WATTS"
    clock_ghz = nominal_ghz(processor, files)
    if clock_ghz is None:
        return f"the kernel does not show the clock of {name}: give idle and full watts, as curve:IDLE,FULL"
    several_dies = has_several_dies(processor)
    if not processor.virtual and processor.packages:
        return Known(tdp_w * processor.packages, processor.cores, clock_ghz, several_dies)
    cores = cores if cores is not None else processor.named_cores
    if cores is None:
        return f"a virtual machine does not show how many cores {name} has: give them, as tdp:WATTS,CORES"
    own = processor.cpus / THREADS_OF_CORE
    return Known(tdp_w * min(1.0, own / cores), own, clock_ghz, several_dies)


def nominal_ghz(processor: Processor, files: KernelFiles) -> float | None:
    """Return the nominal clock of the CPUs; the present one where the kernel shows no other; None without both."""
    if processor.named_ghz is not None:
        return processor.named_ghz
    for file, factor in CLOCKS:
        try:
            clock = number_in(files.read(file), file) * factor
        except KnobRefused:
            continue
        if clock > 0:
            return clock
    return processor.mhz / 1000 or None


@SOURCES.register("tdp")
def tdp(argument: str, here: Surroundings) -> CurveSource:
    """Return the source; the argument gives the TDP of a processor, and its cores.  Raises FieldError."""
    tdp_w, cores = _given(argument)
    processor = processor_here(here.files)
    known = known_of(processor, here.files, tdp_w, cores)
    if isinstance(known, str):
        return CurveSource("tdp", None, known, ZONE)
    return CurveSource("tdp", FITTED.curve(known, UNSEEN_ERROR), zone=ZONE)


def _given(argument: str) -> tuple[float | None, float | None]:
    """Return (watts, cores) as far as the argument has them.  Raises FieldError."""
    if not argument.strip():
        return None, None
    try:
        watts, *rest = (float(cell) for cell in argument.split(","))
    except ValueError:
        raise FieldError("power", f"tdp:{argument}", ALLOWED) from None
    cores = rest[0] if rest else None
    if len(rest) > 1 or not 0 < watts < MOST_WATTS or (cores is not None and not 1 <= cores <= MOST_CORES):
        raise FieldError("power", f"tdp:{argument}", f"{ALLOWED}, watts below {MOST_WATTS:g}")
    return (watts, cores) if math.isfinite(watts) else (None, None)
