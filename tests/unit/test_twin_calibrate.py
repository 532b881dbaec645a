"""A twin from real traces: the structure of the social network, before anything is fitted."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.config.twin_file import load_twin, twin_text
from framework.model.twin import BACKGROUND
from framework.traces.files import read_all
from framework.twin.calibration.assemble import CacheEvidence, Evidence, calibrated
from framework.twin.calibration.structure import structure
from framework.twin.simulator.draws import arrivals
from framework.twin.simulator.simulate import simulate
from framework.twin.translate import compiled

ROOT = Path(__file__).resolve().parents[2]
REAL = ROOT / "tests" / "cases" / "traces" / "real" / "social-network-load150.json.gz"
APPLICATION = load_application(ROOT / "apps" / "social-network")
TYPES = resolved(load_service_types(), cores=2, memory_mib=24_000)
EVIDENCE = Evidence(
    cores=2,
    cpu_us={"nginx": 200.0, "home-timeline": 400.0, "post-storage": 500.0, "post-storage-memcached": 100.0},
    others_us=600.0,
    caches={"post-storage-memcached": CacheEvidence(0.845, 59_309, 1.0, 64.0, 120_000)},
    run_spread=0.1,
)


def test_the_twin_of_the_social_network(tmp_path: Path) -> None:
    twin = calibrated(APPLICATION, TYPES, structure(read_all([str(REAL)]).spans, "nginx"), EVIDENCE, {})
    assert abs(sum(twin.classes.values()) - 1) < 1e-5
    services = {service.name: service for service in twin.services}
    assert not services["nginx"].traced
    assert not services["post-storage-memcached"].traced
    assert services["post-storage"].traced
    assert services[BACKGROUND].traced is False
    assert {edge.caller for edge in twin.edges if edge.fresh} == {"nginx"}, "it alone keeps no connections by default"
    followed = [call for operation in twin.operations for call in operation.calls if call.miss]
    # The database is asked after a miss, and what it said is put into the cache.
    assert {call.service for call in followed} == {"post-storage-db", "post-storage-memcached"}
    assert {call.miss for call in followed} == {"post-storage-memcached"}
    path = tmp_path / "twin.json"
    path.write_text(twin_text(twin))
    assert load_twin(path) == twin

    default = search_space(APPLICATION, TYPES, cores=2, memory_mib=24_000).default()

    def p95(rate: float, **changes: int) -> float:
        program, _ = compiled(twin, APPLICATION, TYPES, {**default, **changes})
        due = arrivals(rate, 20.0, True, np.random.default_rng(1))
        weights = program.weight / program.weight.sum()
        kinds = np.random.default_rng(2).choice(len(weights), size=len(due), p=weights).astype(np.int32)
        return float(np.quantile(simulate(program, due, kinds, seed=1, until_s=60.0).latency_s, 0.95))

    low, high = p95(50.0), p95(250.0)
    assert 0.001 < low < high < 0.5
    assert p95(250.0, **{"post-storage-memcached.memory_mib": 1024}) < high
