"""A study on a twin made by hand: the pipeline above the adapters is the real one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framework.bench import Bench
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.config.twin_file import load_twin, twin_text
from framework.errors import FileError
from framework.model import Deployment, LoadPlan, Study, StudyPlan, StudyState
from framework.model.twin import Twin, TwinCache, TwinCall, TwinEdge, TwinHost, TwinOperation, TwinService
from framework.store.artefacts import FileArtefacts
from framework.store.database import Database
from framework.store.studies import SqlStudyStore
from framework.study.procedure import Procedure
from framework.testbeds.twin import TwinTestbed
from framework.testing.clock import VirtualClock
from framework.testing.pretend import MACHINE
from framework.twin.cache import fitted, hit_ratio
from framework.twin.simulator.simulate import simulate
from framework.twin.translate import compiled, inert
from optimizer.space import Configuration

ROOT = Path(__file__).resolve().parents[2]
SLICE = load_application(ROOT / "apps" / "url-shortener")
TYPES = resolved(load_service_types(), cores=2, memory_mib=16_384)
CACHE = TwinCache(items=100_000, item_kib=2.0, exponent=0.9)

TWIN = Twin(
    application="url-shortener",
    classes={"nginx read": 0.9, "nginx compose": 0.1},
    operations=(
        TwinOperation("nginx", "read", (200.0, 100.0), 0.5, (TwinCall("url-shorten", "get"),)),
        TwinOperation("nginx", "compose", (200.0, 100.0), 0.5, (TwinCall("url-shorten", "put"),)),
        TwinOperation(
            "url-shorten", "get", (300.0, 50.0, 100.0), 0.6,
            (
                TwinCall("url-shorten-memcached", "get"),
                TwinCall("url-shorten-db", "select", probability=0.3, miss="url-shorten-memcached"),
            ),
        ),
        TwinOperation("url-shorten", "put", (300.0, 100.0), 0.6, (TwinCall("url-shorten-db", "insert"),)),
        TwinOperation("url-shorten-memcached", "get", (80.0,), 0.4),
        TwinOperation("url-shorten-db", "select", (900.0,), 0.8),
        TwinOperation("url-shorten-db", "insert", (1500.0,), 0.8),
    ),
    services=(
        TwinService("nginx", "local", cpu_share=0.8, traced=False),
        TwinService("url-shorten", "local", cpu_share=0.7, gc_share=0.2),
        TwinService("url-shorten-memcached", "local", traced=False, cache=CACHE, cache_ratio=hit_ratio(CACHE, 64)),
        TwinService("url-shorten-db", "local", cpu_share=0.5, traced=False),
    ),
    edges=(
        TwinEdge("nginx", "url-shorten", 30.0, 100.0),
        TwinEdge("url-shorten", "url-shorten-memcached", 0.0, 100.0),
        TwinEdge("url-shorten", "url-shorten-db", 0.0, 300.0),
    ),
    hosts=(TwinHost("local", 2, switching=0.05),),
    run_spread=0.03,
)  # fmt: skip


def bench_of(directory: Path, clock: VirtualClock) -> tuple[Bench, TwinTestbed]:
    testbed = TwinTestbed(TWIN, SLICE, TYPES, clock)
    artefacts = FileArtefacts(directory / "artefacts")
    store = SqlStudyStore(Database(f"sqlite:///{directory / 's.db'}"), artefacts, clock)
    return Bench(SLICE, TYPES, testbed, testbed, testbed, store, artefacts, clock, lambda event: None), testbed


def test_its_file_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "twin.json"
    path.write_text(twin_text(TWIN))
    assert load_twin(path) == TWIN
    path.write_text(
        twin_text(TWIN).replace('"url-shorten-memcached", "operation": "get"', '"cache", "operation": "get"', 1)
    )
    with pytest.raises(FileError, match="allowed: an entry in"):
        load_twin(path)


def test_a_study_on_the_twin(tmp_path: Path) -> None:
    clock = VirtualClock()
    bench, _ = bench_of(tmp_path, clock)
    space = search_space(SLICE, TYPES, cores=2, memory_mib=16_384)
    plan = StudyPlan(
        str(SLICE.directory), "tailor", {}, iterations=12, repetitions=2, warmup_s=2.0, window_s=10.0, rate_rps=400.0,
        seed=1, pairs=6, drift_every=0,
    )  # fmt: skip
    study = Study("s1", "now", StudyState.CREATED, plan, "0", space.to_dict(), MACHINE, {}, "twin")
    bench.store.create(study)
    finished = Procedure(bench, study, space).run()
    trials = bench.store.trials("s1")
    default = next(t for t in trials if t.purpose == "default")
    assert default.value is not None
    [measurement, *_] = default.measurements
    assert measurement.quantities["p95"].value == pytest.approx(measurement.generator_p95_ms, rel=0.01)
    assert {service.service for service in measurement.services} >= {"nginx", "url-shorten", "url-shorten-db"}
    assert sum(service.share.value for service in measurement.services) == pytest.approx(1.0)
    assert measurement.cpu["application"] > 0.05
    assert finished.best is not None
    (tmp_path / "again").mkdir()
    again, _ = bench_of(tmp_path / "again", VirtualClock())
    again.store.create(study)
    Procedure(again, study, space).run()
    assert [t.value for t in again.store.trials("s1")] == [t.value for t in trials]


def test_parameters_do_what_their_roles_say() -> None:
    default = search_space(SLICE, TYPES, cores=2, memory_mib=16_384).default()

    def p95(**changes: Any) -> float:
        program, _ = compiled(TWIN, SLICE, TYPES, {**default, **changes})
        due = np.sort(np.random.default_rng(1).random(8_000) * 20.0)
        kinds = (np.random.default_rng(2).random(8_000) < 0.1).astype(np.int32)
        run = simulate(program, due, kinds, seed=1, until_s=60.0)
        return float(np.quantile(run.latency_s, 0.95))

    normal = p95()
    assert p95(**{"url-shorten-memcached.memory_mib": 1024}) < normal, "a larger cache misses less"
    assert p95(**{"nginx.upstream_keepalive": 64}) < normal, "connections that are kept need not be set up"
    assert p95(**{"url-shorten.database_connections": 1}) > normal, "one connection makes queries wait"
    assert p95(**{"url-shorten.gc_percent": 400}) < normal
    assert p95(**{"url-shorten.workers": 1}) > normal


@pytest.mark.parametrize("setup_us", [50.0, 150.0])
def test_what_connections_took_at_the_calibration_is_not_counted_twice(setup_us: float) -> None:
    edge, *others = TWIN.edges
    opened = replace(TWIN, edges=(replace(edge, setup_us=setup_us, fresh=1.0), *others))
    free = replace(TWIN, edges=(replace(edge, setup_us=0.0), *others))
    default = search_space(SLICE, TYPES, cores=2, memory_mib=16_384).default()

    def mean_us(twin: Twin, keepalive: int) -> float:
        program, _ = compiled(twin, SLICE, TYPES, {**default, "nginx.upstream_keepalive": keepalive})
        due = np.arange(4_000, dtype=np.float64)  # one after the other
        return float(1e6 * simulate(program, due, np.zeros(4_000, np.int32), seed=1, until_s=1e9).latency_s.mean())

    assert mean_us(opened, 0) == pytest.approx(mean_us(free, 0), rel=0.02)
    assert mean_us(opened, 0) - mean_us(opened, 64) == pytest.approx(setup_us, rel=0.15)


def p95_of(twin: Twin, placement: dict[str, str] | None = None) -> float:
    default = search_space(SLICE, TYPES, cores=2, memory_mib=16_384).default()
    program, _ = compiled(twin, SLICE, TYPES, default, placement)
    due = np.sort(np.random.default_rng(1).random(6_000) * 20.0)
    kinds = (np.random.default_rng(2).random(6_000) < 0.1).astype(np.int32)
    return float(np.quantile(simulate(program, due, kinds, seed=1, until_s=60.0).latency_s, 0.95))


def with_service(twin: Twin, name: str, **changes: Any) -> Twin:
    return replace(twin, services=tuple(replace(s, **changes) if s.name == name else s for s in twin.services))


def test_what_a_twin_says_of_services_hosts_and_ways() -> None:
    normal = p95_of(TWIN)
    assert p95_of(with_service(TWIN, "url-shorten", quota=0.1)) > 1.2 * normal, "a quota slows"
    two = replace(TWIN, hosts=(*TWIN.hosts, TwinHost("other", 2, switching=0.05)), network_us=500.0)
    assert p95_of(two) == normal, "nothing has moved"
    apart = p95_of(two, {"url-shorten-db": "other"})
    assert apart > p95_of(replace(two, network_us=0.0), {"url-shorten-db": "other"}), "the network takes its time"
    noisy = with_service(TWIN, "url-shorten", sensitivity={"memory": 0.5})
    noisy = with_service(noisy, "url-shorten-db", pressure={"memory": 1.0})
    assert p95_of(noisy) == normal, "the calibration had these neighbours already"
    noisy = replace(noisy, hosts=two.hosts)
    quiet = p95_of(noisy, {"url-shorten-db": "other"})
    assert quiet < p95_of(replace(TWIN, hosts=two.hosts), {"url-shorten-db": "other"}), "without them it is faster"


def test_a_buffer_pool_that_misses_less_reads_less() -> None:
    pool = TwinCache(items=50_000, item_kib=8.0, exponent=0.8)
    twin = with_service(
        TWIN, "url-shorten-db", cpu_share=0.2, io_share=0.8, cache=pool, cache_ratio=hit_ratio(pool, 128)
    )
    default = search_space(SLICE, TYPES, cores=2, memory_mib=16_384).default()

    def p95(memory: int) -> float:
        program, _ = compiled(twin, SLICE, TYPES, {**default, "url-shorten-db.shared_buffers_mib": memory})
        due = np.sort(np.random.default_rng(1).random(4_000) * 20.0)
        run = simulate(program, due, np.ones(4_000, np.int32), seed=1, until_s=60.0)
        return float(np.quantile(run.latency_s, 0.95))

    assert p95(1024) < p95(128) < p95(32)


def test_what_changes_nothing_is_said() -> None:
    assert "nginx.tcp_nodelay" in inert(TWIN, SLICE, TYPES)
    assert "url-shorten-memcached.connections" in inert(TWIN, SLICE, TYPES), "nobody comes near that limit"
    assert "url-shorten-db.shared_buffers_mib" in inert(TWIN, SLICE, TYPES), "nothing is known of the buffer pool"
    assert "url-shorten.database_connections" not in inert(TWIN, SLICE, TYPES)


def test_the_hit_ratio_grows_with_memory() -> None:
    ratios = [hit_ratio(CACHE, memory) for memory in (16, 64, 128, 512)]
    assert ratios == sorted(ratios)
    assert ratios[-1] == 1.0
    assert hit_ratio(fitted(64, 0.6, 100_000, 2.0), 64) == pytest.approx(0.6, abs=0.005)


def test_runs_differ_as_much_as_was_measured(tmp_path: Path) -> None:
    clock = VirtualClock()
    bench, testbed = bench_of(tmp_path, clock)
    plan = LoadPlan(replace(SLICE.workload), 50.0, 1.0, 2.0, 1)
    factors = []
    for place in range(200):
        deployment = Deployment("a", "p", Configuration({}), {}, {}, labels={"tailor.trial-index": str(place)})
        factors.append(testbed._slowdown(plan, deployment))
    assert np.log(factors).std() == pytest.approx(TWIN.run_spread, rel=0.15)
    assert bench.testbed.modelled
    running = testbed.deploy(deployment, lambda step: None)
    run = testbed.run(plan, running, lambda: testbed.usage(running), lambda step: None)
    assert run.ok.all()
