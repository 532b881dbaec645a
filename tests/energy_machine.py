"""A pretend machine whose power follows what runs on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framework.bootstrap.adapters import Opened
from framework.config.energy_file import write_energy
from framework.model import Deployment, LoadPlan, LoadResult, Running, Usage
from framework.model.energy import CpuTimes, IoBytes, Joules, Phase, PowerCurve, ServiceCounters
from framework.model.energy_measurement import EnergyMeasurement, EnergyRequest, EnergyWindow
from framework.model.events import Event
from framework.ports.testbed import Progress
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from framework.testing.pretend_energy import Activity, PretendMeter
from tests.fakes import pretend_tailor

CURVE = PowerCurve(100.0, 300.0)
CPUS = 4
CACHE = (Activity(user=0.05), Activity(user=0.5, system=0.3, written={"block": 2e6, "application": 1e6, "device": 4e6}))
"""Activity of the application's only service: idle, and under load."""


SMALL = Path(__file__).resolve().parent / "cases" / "good" / "small"
RATE = 50.0
REQUEST = EnergyRequest(SMALL, rates_rps=(RATE,), window_s=20.0, warmup_s=5.0, rounds=6)
BUSY = CACHE[1].user + CACHE[1].system  # CPUs under load


def quiet(event: Event) -> None:
    """Watch nothing."""


def watts(cores: float) -> float:
    """Return the power of the machine with so many of its CPUs busy."""
    return CURVE.watts(cores / CPUS)


@dataclass
class MeteredMachine(PretendMachine):
    """Tells the meter what runs.  ``on_load``: called before each load with the number of earlier ones."""

    meter: PretendMeter = field(kw_only=True)
    application: str = ""  # that is deployed
    loads: list[float] = field(default_factory=list)
    on_load: Callable[[int], None] = lambda number: None

    def deploy(self, deployment: Deployment, progress: Progress) -> Running:
        self.meter.advance()
        running = super().deploy(deployment, progress)
        self.meter.advance()
        self.meter.up, self.application = True, deployment.application
        return running

    def clean(self, project: str, *, data: bool = False) -> Sequence[str]:
        self.meter.advance()
        self.meter.up = False
        return super().clean(project, data=data)

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        self.meter.advance()
        if plan.warmup_s:
            self.on_load(len(self.loads))
            self.loads.append(plan.rate_rps)
        self.meter.loaded = True
        try:
            return super().run(plan, running, usage, progress)
        finally:
            self.meter.advance()
            self.meter.loaded = False


def window(phase: Phase, number: int, cores: float, **more: Any) -> EnergyWindow:
    """Ten seconds in which so many of four CPUs were busy."""
    watts = CURVE.watts(cores / CPUS)
    cpu = CpuTimes(user=10 * cores, idle=10 * (CPUS - cores))
    joules = Joules.exactly(10 * watts)
    return EnergyWindow(phase, number, 10.0, CPUS, cpu, joules={"machine": joules}, whole=joules, **more)


def energy_measured() -> EnergyMeasurement:
    """A small measurement of an application with one service."""
    windows = []
    for number in range(3):
        used = {"web": ServiceCounters(8.0, 2.0, {"block": IoBytes(0.0, 51_200.0)})}
        windows.append(window("baseline", number, 0.0))
        windows.append(window("idle", number, 0.1, services={"web": ServiceCounters(0.5, 0.5)}))
        windows.append(
            window("run", number, 1.2, services=used, io={"device": IoBytes(0.0, 102_400.0)}, rate_rps=50.0,
                   requests_per_s=50.0 + number / 10, p95_ms=4.0, generator_s=1.0, tailor_s=0.5, control_s=0.1)
        )  # fmt: skip
    return EnergyMeasurement(
        application="shop", content_hash="0", testbed="docker", processor="a processor <x>", cpus=CPUS, source="curve",
        label="estimated", about="100 to 300 W", warmup_s=1.0, window_s=10.0, rounds=3, rates_rps=(50.0,),
        phases=("baseline", "idle", "run"), seed=1, curve=CURVE, frequency_hz=2e9, at="2026-11-29T00:00:00+00:00",
        windows=tuple(windows),
    )  # fmt: skip


def energy_kept(home: Path) -> str:
    """Keep this measurement below a TAILOR_HOME; return its application."""
    measured = energy_measured()
    write_energy(measured, home / "energy" / f"{measured.application}.json")
    return measured.application


Made = Callable[..., tuple[Opened, MeteredMachine]]


def opened_machines(directory: Path) -> Iterator[Made]:
    """Yield what opens a metered machine and Tailor on it, and close all; the body of a fixture."""
    opened: list[Opened] = []

    def make(**options: Any) -> tuple[Opened, MeteredMachine]:
        clock = VirtualClock()
        settings = {"services": {"cache": CACHE}, "cpus": CPUS, **options}
        meter = PretendMeter(clock, settings.pop("curve", CURVE), **settings)
        machine = MeteredMachine(clock, lambda configuration: 5.0, meter=meter)
        tailor, _ = pretend_tailor(directory, machine, energy=lambda power: meter)
        opened.append(tailor)
        return tailor, machine

    yield make
    for tailor in opened:
        tailor.close()
