"""Cost as a quantity of a study: counted from CPU time and memory, by the cheapest machines; a limit on it is kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.bootstrap.adapters import Opened, opened
from framework.config.settings import Settings
from framework.errors import FieldError, InputError
from framework.model import Running, TuneRequest, Usage
from framework.model.capacity import MachinePrice
from framework.model.spans import no_spans
from framework.objective.cost import GIB, cheapest_prices, cost_per_hour
from framework.objective.evaluate import evaluate
from framework.objective.outcomes import keeps
from framework.study.objective import planned
from framework.testbeds.host.usage import MEMORY, counter_file, memory_bytes
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from tests.fakes import pretend_tailor
from tests.runs import run
from tests.unit.test_capacity_plan import machine

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests" / "cases" / "good" / "small"
MACHINES = ROOT / "examples" / "machines.yaml"
CORES = 0.001  # that the cache keeps busy: so few that its memory binds
PRICES = (
    MachinePrice("cpu", 16.0, 32.0, 0.8, "EUR"),
    MachinePrice("memory", 4.0, 128.0, 1.0, "EUR"),
)


def test_what_binds_costs() -> None:
    assert cost_per_hour(PRICES, 2.0, 1 * GIB) == pytest.approx(0.8 * 2 / 16)
    assert cost_per_hour(PRICES, 0.1, 8 * GIB) == pytest.approx(1.0 * 8 / 128), "cheaper"
    assert cost_per_hour(PRICES, 0.0, 0.0) == 0
    with pytest.raises(InputError, match="cost needs prices"):
        cost_per_hour((), 1.0, GIB)


machines = st.lists(
    st.builds(
        lambda price, cores, ram: machine(price=price, cores=cores, ram_gib=ram),
        st.floats(0.01, 10), st.floats(1, 64), st.floats(1, 512),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@given(machines, st.floats(0.01, 100), st.floats(0.01, 100))
def test_the_types_left_out_are_never_the_cheapest(catalogue: list[object], cores: float, gib: float) -> None:
    every = tuple(
        MachinePrice(entry.name, entry.cores, entry.ram_gib, entry.price_per_hour, "EUR")  # type: ignore[attr-defined]
        for entry in catalogue
    )
    kept = cheapest_prices(catalogue)  # type: ignore[arg-type]
    assert 1 <= len(kept) <= len(every)
    assert cost_per_hour(kept, cores, gib * GIB) == pytest.approx(cost_per_hour(every, cores, gib * GIB))


def test_types_of_which_too_little_is_known_are_left_out() -> None:
    assert cheapest_prices([machine(price=None), machine(cores=None), machine(ram_gib=None)]) == ()
    [kept] = cheapest_prices([machine(cores=None, vcpus=8.0)])
    assert kept.cores == 4


class CachingMachine(PretendMachine):
    """A machine on which a larger cache is faster and takes more memory."""

    def usage(self, running: Running) -> Usage:
        mib = float(str(running.deployment.configuration.get("cache.memory_mib", 64)))
        used_s = CORES * self.clock.monotonic()
        return Usage(
            self.clock.now_ns(), {"cache": used_s}, 0.0, 0.0, 0.0, 2, 0.0, {"cache": mib * 2**20, "jaeger": 1e12}
        )


@pytest.fixture
def tailor(tmp_path: Path) -> Iterator[Opened]:
    faster = CachingMachine(
        VirtualClock(), lambda values: 5.0 + 300.0 / float(str(values.get("cache.memory_mib", 64))), noise=0.01
    )
    opened, _ = pretend_tailor(tmp_path, faster)
    yield opened
    opened.close()


REQUEST = TuneRequest(
    SMALL, rate_rps=100.0, iterations=12, repetitions=1, pairs=4, drift_every=0, minimal=0, catalogues=(MACHINES,),
    only=("cache.memory_mib",),
)  # fmt: skip


def test_a_limit_on_the_cost_is_kept(tailor: Opened) -> None:
    prices = tailor.studies.prepared(REQUEST).plan.prices
    assert {price.currency for price in prices} == {"EUR"}
    most = cost_per_hour(prices, CORES, 512 * 2**20)
    study = tailor.studies.create(replace(REQUEST, also=("cost",), subject_to=(f"cost <= {most:.6f}",)))
    finished = tailor.studies.run(study.id, lambda event: None)
    trials = tailor.store.trials(finished.id)
    best = next(trial for trial in trials if trial.number == finished.best)
    mib = float(str(best.configuration["cache.memory_mib"]))
    assert 64 < mib <= 512
    objective = planned(tailor.backends.application(SMALL), finished.plan).objective
    assert keeps(best, objective)
    costs = [m.quantities["cost"].value for trial in trials for m in trial.measurements if not m.invalid]
    assert len({round(cost, 9) for cost in costs}) > 3
    told = next(m for m in best.measurements if not m.invalid).quantities["cost"].value
    assert told == pytest.approx(cost_per_hour(prices, CORES, mib * 2**20), rel=0.01)
    summary = tailor.results.summary(finished)
    assert {outcome.quantity for outcome in summary.outcomes} == {"cost"}
    assert summary.front
    assert "cost" in tailor.results.write_report(finished).read_text()


def test_cost_without_prices_is_refused(tailor: Opened) -> None:
    unpriced = replace(REQUEST, catalogues=())
    for request in (replace(unpriced, also=("cost",)), replace(unpriced, subject_to=("cost <= 1",))):
        with pytest.raises(InputError, match=r"cost needs prices of machines: found no catalogues; allowed: a file"):
            tailor.studies.prepared(request)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"also": ("cost",)}, "also"),
        ({"subject_to": ("cost <= 0.2",)}, "subject_to"),
        ({"objective": "cost"}, "objective"),
    ],
)
def test_cost_is_refused_before_a_study_where_memory_is_not_told(
    asked: dict[str, Any], field: str, tmp_path: Path
) -> None:
    request = TuneRequest(ROOT / "apps" / "hotel-reservation", testbed="twin", catalogues=(MACHINES,), **asked)
    tailor = opened(Settings.from_environment({"TAILOR_HOME": str(tmp_path / "home")}))
    try:
        with pytest.raises(
            InputError, match=f"^{field}: found cost, .*testbed twin does not tell it; allowed: cost on"
        ):
            tailor.studies.create(request)
        assert not tailor.store.studies()
        assert tailor.studies.prepared(replace(request, also=("cpu",), subject_to=(), objective=None)).modelled
    finally:
        tailor.close()


def test_prices_that_cannot_be_used_are_refused(tailor: Opened, tmp_path: Path) -> None:
    dollars = tmp_path / "dollars.yaml"
    dollars.write_text(MACHINES.read_text().replace("EUR", "USD"))
    with pytest.raises(FieldError, match="prices in EUR, USD"):
        tailor.studies.prepared(replace(REQUEST, catalogues=(MACHINES, dollars)))
    little = tmp_path / "little.yaml"
    little.write_text(
        "kind: machine-catalogue\nversion: 1\nprovider: p\npurchase: spot\ncurrency: EUR\nper: hour\n"
        'priced_on: "2026"\nsource: s\ntypes:\n  - {name: m, price: 1.0}\n'
    )
    with pytest.raises(FieldError, match="catalogues: found '1 types'; allowed: at least one with price, cores"):
        tailor.studies.prepared(replace(REQUEST, catalogues=(little,)))


def test_memory_that_is_not_known_is_no_memory_of_zero(tailor: Opened) -> None:
    load = run([10.0] * 4_000)
    application = tailor.backends.application(SMALL)
    objective = replace(application.objective, also=("cost",), prices=PRICES)
    counted = replace(application, objective=objective, tracing=None)
    with pytest.raises(InputError, match="does not tell what the services used"):
        evaluate(load, no_spans(), application=counted, rate_rps=200.0, created=None, traced=False)
    assert load.usage_after is not None
    known = replace(load.usage_after, memory_bytes=dict.fromkeys(load.usage_after.cpu_s, GIB))
    measured = evaluate(
        replace(load, usage_after=known), no_spans(), application=counted, rate_rps=200.0, created=None, traced=False
    )
    assert measured.quantities["cost"].value == pytest.approx(cost_per_hour(PRICES, 0.4375, 3 * GIB))
    assert math.isinf(measured.quantities["cost"].low)


def test_memory_is_read_from_the_kernel_s_files(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    (proc / "7").mkdir(parents=True)
    (proc / "self").mkdir()
    group = "abcdef0123456789"
    for version, lines, mounts, name, dropped in (
        (1, f"5:memory:/docker/{group}\n3:cpuacct,cpu:/docker/{group}\n",
         f"m {tmp_path}/v1 cgroup rw,memory 0 0\n", "memory.usage_in_bytes", "total_inactive_file 30\ninactive_file 5"),
        (2, f"0::/docker/{group}\n", f"c {tmp_path}/v2 cgroup2 rw 0 0\n", "memory.current", "inactive_file 30"),
    ):  # fmt: skip
        (proc / "7" / "cgroup").write_text(lines)
        (proc / "self" / "mounts").write_text(mounts)
        directory = tmp_path / f"v{version}" / "docker" / group
        directory.mkdir(parents=True)
        (directory / name).write_text("100\n")
        (directory / "memory.stat").write_text(f"anon 60\n{dropped}\n")
        file = counter_file(proc, 7, group, MEMORY)
        assert file == directory / name
        assert memory_bytes(file) == 70
    assert counter_file(proc, 8, group, MEMORY) is None
