"""Registry of power sources by name; a file of this folder, or another package, registers one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from framework.ports.energy import PowerSource
from framework.ports.kernel_files import KernelFiles
from framework.ports.metric_server import MetricServer
from framework.registry import Registry
from framework.testbeds.host.kernel_files import HostKernelFiles
from framework.testbeds.host.power.commands import CommandOutput, run


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The machine as power sources see it.

    ``run``: runs a command.  ``now``: the wall clock [s since 1970], with which the times in others' files are
    compared.  ``metrics``: opens the Prometheus server at an address; None where this program has no way to ask one.
    """

    files: KernelFiles = field(default_factory=HostKernelFiles)
    run: Callable[[Sequence[str]], CommandOutput] = run
    now: Callable[[], float] = time.time
    metrics: Callable[[str], MetricServer] | None = None


SOURCES: Registry[Callable[[str, Surroundings], PowerSource]] = Registry(
    "power source", "tailor.power_sources", "framework.testbeds.host.power"
)
"""Functions that make a source of the text behind its name and ":" (empty where there is none).

They raise FieldError for a text that cannot be used, and FileError for a file; what the machine lacks, the source says.
"""
