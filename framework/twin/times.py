"""Service times of a twin under its default configuration, computed as from real traces."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from framework.critical_path.service_time import compile_once, service_times
from framework.model import Application, ServiceTime, ServiceType
from framework.model.twin import Twin
from framework.objective.window import GENERATOR
from framework.twin.simulator.draws import arrivals
from framework.twin.simulator.simulate import simulate
from framework.twin.simulator.spans import span_table
from framework.twin.translate import compiled


def modelled_times(
    twin: Twin, application: Application, types: Mapping[str, ServiceType], rate_rps: float, requests: int = 2_500
) -> tuple[ServiceTime, ...]:
    """Simulate about ``requests`` requests under the default and return each service's time on the critical path."""
    compile_once()
    program, operations = compiled(twin, application, types, {})
    rng = np.random.default_rng(1)
    due = arrivals(rate_rps, requests / rate_rps, True, rng)
    kinds = rng.choice(len(program.weight), size=len(due), p=program.weight / program.weight.sum()).astype(np.int32)
    outcome = simulate(program, due, kinds, seed=1, until_s=10 * requests / rate_rps)
    traced = {service.name: service.traced for service in twin.services}
    spans = span_table(
        outcome, operations, [traced[operation.service] for operation in operations], np.isfinite(outcome.latency_s),
        generator=GENERATOR, origin_ns=0,
    )  # fmt: skip
    return tuple(service_times(spans, application.entry, application.peers))
