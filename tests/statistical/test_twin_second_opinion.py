"""The simulator agrees with the same model written by SimPy's book (experiments/bench/twin), within their noise."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from experiments.bench.twin.by_the_book import Application
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.twin_file import load_twin, twin_path
from framework.twin.simulator.draws import arrivals
from framework.twin.simulator.simulate import simulate
from framework.twin.translate import compiled

pytestmark = pytest.mark.statistical

SOCIAL_NETWORK = Path(__file__).resolve().parents[2] / "apps" / "social-network"
SEEDS = range(1, 9)
SECONDS = 5.0
FARTHEST = 8.0  # standard errors: Student's t of 7 degrees of freedom, alpha = 1e-4 for each of two means


@pytest.mark.parametrize("changed", [{}, {"nginx.upstream_keepalive": 64}])
def test_the_social_network_by_two_simulators(changed: dict[str, int]) -> None:
    application, twin = load_application(SOCIAL_NETWORK), load_twin(twin_path(SOCIAL_NETWORK))
    types = resolved(load_service_types(), cores=twin.hosts[0].cores, memory_mib=twin.hosts[0].memory_mib)
    program, _ = compiled(twin, application, types, changed)
    ours, theirs = [], []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        due = arrivals(150.0, SECONDS, True, rng)
        kinds = rng.choice(len(program.weight), size=len(due), p=program.weight / program.weight.sum())
        run = simulate(program, due, kinds.astype(np.int32), seed=seed, until_s=math.inf)
        model = Application(program, seed)
        model.run(due.tolist(), kinds.tolist(), until=10 * SECONDS)
        assert len(model.latency_s) == len(due)
        ours.append(np.array([run.latency_s.mean(), np.quantile(run.latency_s, 0.95)]))
        theirs.append(np.array([np.mean(model.latency_s), np.quantile(model.latency_s, 0.95)]))
    # The same arrivals in both, other demands: paired differences of the logarithms.
    difference = np.log(np.array(ours)) - np.log(np.array(theirs))
    error = difference.std(axis=0, ddof=1) / math.sqrt(len(difference))
    assert np.all(np.abs(difference.mean(axis=0)) < FARTHEST * error)
    assert np.all(error < [0.02, 0.04]), "a mean that is a sixth off would be seen, and a p95 that is a third off"
