"""Counters of energy of this machine, with the power source that a text names."""

from __future__ import annotations

from framework.energy.power_catalogue import curve_for
from framework.telemetry.prometheus_server import PrometheusServer
from framework.testbeds.docker.energy_meter import DockerEnergyMeter
from framework.testbeds.host.energy_counters import EnergyFiles
from framework.testbeds.host.power.curve import CurveSource, processor_here
from framework.testbeds.host.power.opening import open_source
from framework.testbeds.host.power.registry import Surroundings
from framework.testbeds.host.power.tdp import nominal_ghz


def energy_meter(power: str) -> DockerEnergyMeter:
    """Open the counters of containers on this machine, and a power source.

    Its power at full load is that of the source where it has a curve, else what the catalogue knows of the processor.
    Raises UnknownName, FieldError, FileError, and MissingPrerequisite where no source works here.
    """
    here = Surroundings(metrics=PrometheusServer)
    source = open_source(power, here)
    curve = source.curve if isinstance(source, CurveSource) else curve_for(processor_here(here.files))
    ghz = nominal_ghz(processor_here(here.files), here.files)
    return DockerEnergyMeter(source, EnergyFiles(here.files), curve, None if ghz is None else 1e9 * ghz)
