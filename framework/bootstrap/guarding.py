"""The adapters of guards, on the Docker Engine that answers here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from framework.config.load_profile_file import read_load_profile
from framework.errors import LoadFailed
from framework.load.container import ContainerLoad
from framework.load.live import LiveLoad, LoadLatency
from framework.model import Application, LoadPlan, RatePoint, Running
from framework.ports.clock import Clock
from framework.ports.job_queue import BatchQueue
from framework.ports.sensor import Sensor
from framework.telemetry.latency import latency_source
from framework.testbeds.docker.guarded_machine import guarded_machine, may_guard
from framework.testbeds.docker.side_containers import DockerSideContainers
from framework.use_cases.guard import GuardTools, LoadShape

DAY_S = 86_400.0
MORE_S = 30.0  # beyond a guard's own length: the load must not end before it
SETTLES_S = 10.0  # the load's first seconds, which a guard does not see: caches and connections are cold
STEP_S = 0.1


def guard_tools(home: Path, queue: BatchQueue, clock: Clock) -> GuardTools:
    """Return the adapters of guards."""

    @contextmanager
    def driven(application: Application, running: Running, shape: LoadShape) -> Iterator[Sensor]:
        with LiveLoad(ContainerLoad(application, DockerSideContainers()), clock) as load:
            load.start(plan_of(application, shape), running)
            until = clock.monotonic() + SETTLES_S
            while clock.monotonic() < until:
                load.check()
                clock.sleep(STEP_S)
            if load.latencies(clock.monotonic(), SETTLES_S).rate_rps is None:
                raise LoadFailed(f"the load generator told nothing in its first {SETTLES_S:g} s")
            yield LoadLatency(load, quantile=shape.quantile)

    return GuardTools(
        check=may_guard,
        machine=lambda project, request, protected: guarded_machine(
            project, home, request.cpus, request.link_mbps, request.disk_mbs, request.canary, protected
        ),
        driven=driven,
        watched=latency_source,
        points=load_points,
        queue=queue,
    )


def plan_of(application: Application, shape: LoadShape) -> LoadPlan:
    """Return the plan of a load that goes on for as long as a guard."""
    length_s = (DAY_S if shape.seconds is None else shape.seconds) + MORE_S
    rate = 0.0 if shape.points else shape.rate_rps
    return LoadPlan(
        application.workload, rate, SETTLES_S, length_s, shape.seed, trace=False, profile=tuple(shape.points)
    )


def load_points(path: Path, seconds: float, rate_rps: float) -> tuple[RatePoint, ...]:
    """Read a load profile, and replay all of it in so many seconds.  Raises FileError."""
    profile = read_load_profile(path, rate_rps=rate_rps)
    return profile.compressed(profile.length_s / seconds).points
