"""Energy as a quantity of a study: joules per request of the CPU time that services use, by a power curve."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.bootstrap.adapters import Opened, opened
from framework.config.settings import Settings
from framework.errors import FieldError, InputError
from framework.model import Running, TuneRequest, Usage
from framework.model.energy import PowerCurve
from framework.model.spans import no_spans
from framework.objective.energy import joules_per_request
from framework.objective.evaluate import evaluate
from framework.objective.outcomes import keeps
from framework.study.objective import planned
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from tests.fakes import pretend_tailor
from tests.runs import run

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests" / "cases" / "good" / "small"
CURVE = PowerCurve(100.0, 300.0)


def test_the_services_have_the_active_part_by_cpu_time() -> None:
    # 200 W above idle at full load; 40 % busy of which the application is half: 40 W for 100 requests/s.
    assert joules_per_request(CURVE, {"application": 0.2, "generator": 0.2}, 1000, 10.0) == pytest.approx(0.4)
    assert joules_per_request(CURVE, {"application": 0.0, "others": 0.0}, 10, 1.0) is None, "nothing was counted"
    assert joules_per_request(CURVE, {"application": 0.0, "others": 0.1}, 10, 1.0) == 0.0
    assert joules_per_request(CURVE, {"application": 0.2}, 0, 1.0) is None


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(InputError, match="needs the power of the machine"):
        joules_per_request(None, {"application": 0.2}, 1, 1.0)
    with pytest.raises(InputError, match="does not tell"):
        joules_per_request(CURVE, {}, 1, 1.0)


@given(st.floats(0, 0.4), st.floats(0, 0.4), st.floats(0.3, 2.0))
def test_users_parts_add_up_to_what_is_above_idle(own: float, other: float, bend: float) -> None:
    curve = PowerCurve(100.0, 300.0, bend)
    parts = [
        joules_per_request(curve, {"application": one, "others": two}, 1, 1.0) or 0.0
        for one, two in ((own, other), (other, own))
    ]
    assert math.fsum(parts) == pytest.approx(curve.watts(own + other) - curve.watts(0.0), abs=1e-9)


class CachingMachine(PretendMachine):
    """A machine on which a larger cache takes more CPU time, and is faster."""

    def usage(self, running: Running) -> Usage:
        mib = float(str(running.deployment.configuration.get("cache.memory_mib", 64)))
        now_s = self.clock.monotonic()
        return Usage(self.clock.now_ns(), {"cache": mib / 2048 * now_s}, mib / 2048 * now_s, 0.0, 0.0, 2, 0.0)


@pytest.fixture
def tailor(tmp_path: Path) -> Iterator[Opened]:
    faster = CachingMachine(
        VirtualClock(), lambda values: 5.0 + 300.0 / float(str(values.get("cache.memory_mib", 64))), noise=0.01
    )
    opened, _ = pretend_tailor(tmp_path, faster)
    yield opened
    opened.close()


REQUEST = TuneRequest(
    SMALL, rate_rps=100.0, iterations=12, repetitions=1, pairs=4, drift_every=0, minimal=0, power="100,300,1",
    only=("cache.memory_mib",),
)  # fmt: skip


def joules(mib: float) -> float:
    return 200.0 * mib / 2048 / 2 / 100.0


def test_a_limit_on_energy_is_kept_and_the_pareto_set_is_told(tailor: Opened) -> None:
    asked = replace(REQUEST, also=("energy",), subject_to=(f"energy <= {joules(512):.6f}",))
    study = tailor.studies.create(asked)
    assert study.plan.power is not None
    assert (study.plan.power.idle_w, study.plan.power.full_w) == (100.0, 300.0)
    finished = tailor.studies.run(study.id, lambda event: None)
    trials = tailor.store.trials(finished.id)
    best = next(trial for trial in trials if trial.number == finished.best)
    mib = float(str(best.configuration["cache.memory_mib"]))
    assert 64 < mib <= 520
    assert keeps(best, planned(tailor.backends.application(SMALL), finished.plan).objective)
    told = next(m for m in best.measurements if not m.invalid).quantities["energy"].value
    assert told == pytest.approx(joules(mib), rel=0.03)
    summary = tailor.results.summary(finished)
    assert {outcome.quantity for outcome in summary.outcomes} == {"energy"}
    assert summary.front
    assert "energy" in tailor.results.write_report(finished).read_text()


def test_a_machine_of_which_nothing_is_known_is_refused(tailor: Opened) -> None:
    with pytest.raises(InputError, match=r"nothing is known of cpu: found no power; allowed: watts"):
        tailor.studies.prepared(replace(REQUEST, power=None, also=("energy",)))
    assert tailor.studies.prepared(replace(REQUEST, power=None)).plan.power is None


@pytest.mark.parametrize("power", ["", "120", "350,120", "-1,5", "a,b", "0,0", "120,20000", "nan,5"])
def test_watts_that_cannot_be_are_refused(tailor: Opened, power: str) -> None:
    with pytest.raises(FieldError, match="power"):
        tailor.studies.prepared(replace(REQUEST, power=power))


def test_the_twin_tells_energy(tmp_path: Path) -> None:
    request = TuneRequest(
        ROOT / "apps" / "hotel-reservation", testbed="twin", also=("energy",), power="120,350", iterations=2,
        repetitions=1, pairs=0, minimal=0, only=("frontend",),
    )  # fmt: skip
    tailor = opened(Settings.from_environment({"TAILOR_HOME": str(tmp_path / "home")}))
    try:
        finished = tailor.studies.run(tailor.studies.create(request).id, lambda event: None)
        values = [
            m.quantities["energy"].value for trial in tailor.store.trials(finished.id) for m in trial.measurements
        ]
        assert values
        assert all(0 < value < 10 for value in values)
    finally:
        tailor.close()


def test_what_services_used_has_to_be_known(tailor: Opened) -> None:
    load = run([10.0] * 4_000)
    application = tailor.backends.application(SMALL)
    objective = replace(application.objective, also=("energy",), power=CURVE)
    counted = replace(application, objective=objective, tracing=None)
    measured = evaluate(load, no_spans(), application=counted, rate_rps=200.0, created=None, traced=False)
    assert measured.quantities["energy"].value > 0
    assert math.isinf(measured.quantities["energy"].low)
    with pytest.raises(InputError, match="does not tell"):
        evaluate(
            replace(load, usage_before=None),
            no_spans(),
            application=counted,
            rate_rps=200.0,
            created=None,
            traced=False,
        )
