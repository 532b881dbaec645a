"""Energy measured on a pretended machine: what is known of it comes out, and nothing is measured twice."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framework.config.energy_file import load_energy, write_energy
from framework.energy.answer import answered
from framework.energy.answers import PhaseAnswer
from framework.energy.attribution import OTHERS
from framework.errors import (
    DeploymentFailed,
    FileError,
    InputError,
    Interrupted,
    MissingPrerequisite,
    TrialFailed,
    UnknownName,
)
from framework.model.energy import STATES, PowerCurve
from framework.testing.pretend_energy import Activity, PretendSource
from framework.use_cases.energy import missing_steps
from tests.energy_machine import BUSY, CACHE, CPUS, CURVE, RATE, REQUEST, SMALL, Made, opened_machines, quiet, watts


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    yield from opened_machines(tmp_path)


def test_a_request_takes_what_the_machine_does(made: Made) -> None:
    tailor, machine = made()
    measured = tailor.energies.measure(REQUEST, quiet)
    answer = measured.answer
    phases: dict[str, PhaseAnswer] = {phase.phase: phase for phase in answer.phases}
    assert {name: phase.windows for name, phase in phases.items()} == {"baseline": 6, "idle": 6, "run": 6}
    for name, cores in (("baseline", 0.0), ("idle", CACHE[0].user), ("run", BUSY)):
        phase = phases[name]
        assert sum(phase.shares.values()) == pytest.approx(1.0)
        assert set(phase.shares) == set(STATES)
        assert phase.utilisation == pytest.approx(cores / CPUS)
        assert phase.watts is not None
        assert phase.watts.value == pytest.approx(watts(cores), rel=1e-6)
    [run] = answer.runs
    assert run.rate_rps == RATE
    assert run.whole_j is not None
    assert run.idle_j is not None
    assert run.application_j is not None
    assert run.whole_j.value == pytest.approx(watts(BUSY) / run.requests_per_s.value, rel=1e-6)
    assert run.idle_j.value == pytest.approx(watts(0.0) / run.requests_per_s.value, rel=1e-6)
    assert run.idle_of == "baseline"
    [cache] = run.services
    assert cache.active_j is not None
    assert cache.user_us == pytest.approx(1e6 * CACHE[1].user / run.requests_per_s.value)
    assert cache.system_us == pytest.approx(1e6 * CACHE[1].system / run.requests_per_s.value)
    assert run.application_j.value == pytest.approx(cache.active_j.value)
    # The machine counts the load generator too, which the pretended one gives 0.1 s of CPU time in a run.
    assert run.application_j.value <= run.whole_j.value - run.idle_j.value + 1e-9
    assert len(machine.loads) == 6
    assert measured.page.read_text().count("<svg") >= 4
    assert load_energy(measured.file) == measured.measurement


def test_io_operations_are_512_bytes_and_give_the_source_s_numbers(made: Made) -> None:
    tailor, _ = made()
    measured = tailor.energies.measure(REQUEST, quiet)
    [run] = measured.answer.runs
    assert run.io is not None
    assert run.io.cpio is not None
    assert run.io.user_cpio is not None
    assert run.io.cpio_idle is not None
    per_s = 4e6 / 512
    assert run.io.operations_per_s.value == pytest.approx(per_s)
    assert run.io.cpio.value == pytest.approx(BUSY * 2e9 / per_s)
    assert run.io.user_cpio.value == pytest.approx(CACHE[1].user * 2e9 / per_s)
    assert run.io.cpio_idle.value == pytest.approx((CPUS - BUSY) * 2e9 / per_s)
    for name, share in {"own": 1 / 3, "0": 0.0, "0.7": 0.7}.items():
        joules = 300.0 * (BUSY + share * (CPUS - BUSY)) / CPUS / per_s
        assert run.io.eio[name].value == pytest.approx(joules)
        assert run.io.emio[name].value == pytest.approx(1e6 * joules)
    assert run.amplification == pytest.approx({"block/application": 2.0, "device/block": 2.0})
    at_block = answered(measured.measurement, "block").runs[0]
    assert at_block.io is not None
    assert at_block.io.operations_per_s.value == pytest.approx(2e6 / 512)
    [cache] = at_block.services
    assert cache.io is not None
    for alone, all_of_it in ((cache.io.cpio, at_block.io.cpio), (cache.io.cpio_idle, at_block.io.cpio_idle)):
        assert alone is not None
        assert all_of_it is not None
        assert alone.value == pytest.approx(all_of_it.value), "it alone runs"


def test_without_io_there_is_no_number_per_io(made: Made) -> None:
    tailor, _ = made(services={"cache": (Activity(), Activity(user=1.0))})
    [run] = tailor.energies.measure(replace(REQUEST, rounds=1), quiet).answer.runs
    assert run.io is None
    assert run.no_io == "no I/O"
    assert run.whole_j is not None


def test_others_have_their_part_and_are_told(made: Made) -> None:
    tailor, _ = made(others=1.0)
    measured = tailor.energies.measure(replace(REQUEST, rounds=2), quiet)
    assert any("others kept 25%" in note for note in measured.answer.notes)
    [run] = measured.answer.runs
    assert run.idle_j is not None
    assert run.application_j is not None
    assert run.idle_j.value == pytest.approx(watts(1.0) / run.requests_per_s.value, rel=1e-6)
    active = watts(BUSY + 1.0) - watts(1.0)
    assert run.application_j.value < active / run.requests_per_s.value, OTHERS


def test_a_source_that_lost_count_leaves_the_window_out(made: Made) -> None:
    tailor, _ = made(power=PretendSource(CURVE, lose={2, 3, 4, 5, 6}))
    measured = tailor.energies.measure(replace(REQUEST, rounds=1, phases=("baseline",)), quiet)
    [window] = measured.measurement.windows
    assert window.invalid
    assert window.whole is None
    [phase] = measured.answer.phases
    assert (phase.windows, phase.left_out) == (0, 1)
    assert phase.watts is None


def test_stolen_time_leaves_the_window_out(made: Made) -> None:
    tailor, _ = made(steal=0.4)
    measured = tailor.energies.measure(replace(REQUEST, rounds=1, phases=("baseline", "idle")), quiet)
    assert all("took away 10.0%" in window.invalid[0] for window in measured.measurement.windows)
    generous = replace(REQUEST, rounds=1, phases=("baseline",), limits={"stolen_cpu": 0.2})
    assert not tailor.energies.measure(generous, quiet, again=True).measurement.windows[0].invalid


def test_the_estimate_s_own_interval_is_told_apart(made: Made) -> None:
    curve = PowerCurve(100.0, 300.0, error=math.log(1.5))
    tailor, _ = made(curve=curve)
    [run] = tailor.energies.measure(replace(REQUEST, rounds=2), quiet).answer.runs
    assert run.io is not None
    own = run.io.eio["own"]
    assert own.source_low == pytest.approx(own.value / 1.5)
    assert own.source_high == pytest.approx(own.value * 1.5)


def test_it_goes_on_where_it_was_stopped(made: Made) -> None:
    tailor, machine = made()

    def stop(number: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    machine.on_load = stop
    with pytest.raises(Interrupted, match="the same command goes on"):
        tailor.energies.measure(REQUEST, quiet)
    kept = load_energy(tailor.energies.records.path("small"))
    assert len(kept.of("run")) == 3
    machine.on_load = lambda number: None
    measured = tailor.energies.measure(REQUEST, quiet).measurement
    assert measured.windows[: len(kept.windows)] == kept.windows
    assert len(measured.of("run")) == 6
    assert not missing_steps(measured)
    driven = len(machine.loads)
    more = tailor.energies.measure(replace(REQUEST, rounds=7), quiet).measurement
    assert len(machine.loads) == driven + 1
    assert more.windows[: len(measured.windows)] == measured.windows
    with pytest.raises(InputError, match=r"other conditions \(window_s"):
        tailor.energies.measure(replace(REQUEST, window_s=10.0), quiet)
    assert len(tailor.energies.measure(replace(REQUEST, rounds=1), quiet, again=True).measurement.of("run")) == 1


def test_a_window_that_the_load_made_invalid_does_not_count(made: Made) -> None:
    tailor, machine = made()
    machine.invalid_once = {1, 2, 3}
    measured = tailor.energies.measure(replace(REQUEST, rounds=2), quiet)
    runs = [window for window in measured.measurement.windows if window.phase == "run"]
    assert [bool(window.invalid) for window in runs] == [True, False]
    assert "no valid repetition" in runs[0].invalid[-1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"window_s": 0.1}, "window_s"),
        ({"rounds": 0}, "rounds"),
        ({"phases": ()}, "phases"),
        ({"phases": ("base",)}, "unknown phase"),
        ({"rates_rps": (0.0,)}, "rate"),
        ({"rates_rps": (float("nan"),)}, "rate"),
    ],
)
def test_what_cannot_be_measured_is_refused(made: Made, change: dict[str, object], said: str) -> None:
    tailor, machine = made()
    with pytest.raises(InputError, match=said):
        tailor.energies.measure(replace(REQUEST, **change), quiet)  # type: ignore[arg-type]  # wrong on purpose
    assert not machine.deployed


def test_a_testbed_without_counters_is_refused(made: Made) -> None:
    tailor, _machine = made()
    kind = replace(tailor.backends.kinds[0], energy=None)
    object.__setattr__(tailor.backends, "kinds", [kind])
    with pytest.raises(MissingPrerequisite, match="no counters of energy"):
        tailor.energies.measure(REQUEST, quiet)


def test_an_unknown_level_is_refused(made: Made) -> None:
    tailor, _ = made()
    measured = tailor.energies.measure(replace(REQUEST, rounds=1), quiet)
    with pytest.raises(UnknownName, match="disk"):
        tailor.energies.answered(measured.measurement, measured.file, "disk")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": "energy-measurement", "version": 2}', "{", "\x00"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kept.json"
    file.write_text(text)
    with pytest.raises(FileError):
        load_energy(file)


def test_numbers_that_cannot_be_are_refused(made: Made, tmp_path: Path) -> None:
    tailor, _ = made()
    measurement = tailor.energies.measure(replace(REQUEST, rounds=1), quiet).measurement
    first = measurement.windows[0]
    for changed in (replace(first, seconds=-1.0), replace(first, cpus=0), replace(first, seconds=math.nan)):
        file = write_energy(replace(measurement, windows=(changed,)), tmp_path / "wrong.json")
        with pytest.raises(FileError, match="energy"):
            load_energy(file)


def test_an_application_is_measured_at_its_own_rate_also_below_one_a_second(made: Made, tmp_path: Path) -> None:
    slow = Path(shutil.copytree(SMALL, tmp_path / "slow"))
    text = (slow / "application.yaml").read_text()
    (slow / "application.yaml").write_text(text.replace("rate_rps: 10,", "rate_rps: 0.5,"))
    tailor, machine = made()
    [run] = tailor.energies.measure(replace(REQUEST, application=slow, rates_rps=(), rounds=1), quiet).answer.runs
    assert run.rate_rps == 0.5
    assert set(machine.loads) == {0.5}


def test_a_window_during_which_the_machine_was_slower_does_not_count(made: Made) -> None:
    tailor, _ = made(speed=lambda number: 0.5 if number == 4 else 1.0)
    measured = tailor.energies.measure(replace(REQUEST, rounds=3), quiet)
    assert sum(phase.left_out for phase in measured.answer.phases) == 1
    [reason] = [reason for phase in measured.answer.phases for reason in phase.reasons]
    assert "2.00 times as slow as usual" in reason


def test_the_parts_of_a_request_add_up_to_the_whole(made: Made) -> None:
    tailor, _ = made(others=0.5)
    [run] = tailor.energies.measure(replace(REQUEST, rounds=2), quiet).answer.runs
    assert run.whole_j is not None
    assert run.idle_j is not None
    parts = [run.idle_j, *run.others_j.values(), *(row.active_j for row in run.services if row.active_j is not None)]
    assert math.fsum(part.value for part in parts) == pytest.approx(run.whole_j.value)
    assert OTHERS in run.others_j


def test_a_deployment_that_fails_is_told_and_what_was_measured_is_kept(made: Made) -> None:
    tailor, machine = made()

    def fail(count: int) -> None:
        if count == 2:
            raise DeploymentFailed("it did not start", "cache")

    machine.on_deploy = fail
    with pytest.raises(TrialFailed, match=r"round 3, .*it did not start"):
        tailor.energies.measure(REQUEST, quiet)
    kept = load_energy(tailor.energies.records.path("small"))
    assert len(kept.of("run")) == 2
    machine.on_deploy = lambda count: None
    measured = tailor.energies.measure(REQUEST, quiet).measurement
    assert [len(measured.of(phase)) for phase in ("baseline", "idle", "run")] == [6, 6, 6], "none twice"


def test_another_curve_of_the_same_source_is_another_condition(made: Made) -> None:
    tailor, machine = made()
    tailor.energies.measure(replace(REQUEST, rounds=1), quiet)
    machine.meter.curve_ = PowerCurve(1.0, 2.0)
    with pytest.raises(InputError, match=r"other conditions \(curve\)"):
        tailor.energies.measure(replace(REQUEST, rounds=2), quiet)


def test_a_source_without_a_clock_has_no_cycles_and_has_joules(made: Made) -> None:
    tailor, machine = made()
    machine.meter.clocks = lambda: None
    [run] = tailor.energies.measure(replace(REQUEST, rounds=1), quiet).answer.runs
    assert run.io is not None
    assert run.io.cpio is None
    assert run.io.emio["0.7"].value > 0


def test_what_is_not_counted_is_not_called_no_io(made: Made) -> None:
    tailor, _ = made()
    measured = tailor.energies.measure(replace(REQUEST, rounds=1), quiet)
    [cache] = measured.answer.runs[0].services
    assert cache.io is None
    assert cache.no_io == "not counted at this level", "the pretended service has no counter of devices"
