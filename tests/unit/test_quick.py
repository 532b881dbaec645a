"""The quick study: a first look where things are measured, the full protocol where a model answers."""

from __future__ import annotations

from pathlib import Path

from framework.model import TuneRequest
from framework.study.planning import QUICK_LIMITS, QUICK_ON_MODEL, quick
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine, larger_is_faster
from tests.fakes import pretend_tailor

SLICE = Path(__file__).resolve().parents[2] / "apps" / "url-shortener"


def test_measured(tmp_path: Path) -> None:
    tailor, _ = pretend_tailor(tmp_path, PretendMachine(VirtualClock(), larger_is_faster))
    plan = tailor.studies.prepared(quick(TuneRequest(SLICE))).plan
    assert (plan.quick, plan.iterations, plan.repetitions, plan.window_s, plan.pairs) == (True, 8, 2, 10.0, 6)
    assert plan.limits == QUICK_LIMITS


def test_modelled(tmp_path: Path) -> None:
    tailor, _ = pretend_tailor(tmp_path, PretendMachine(VirtualClock(), larger_is_faster, modelled=True))
    plan, full = tailor.studies.prepared(quick(TuneRequest(SLICE, limits={"errors": 0.5}))).plan, TuneRequest(SLICE)
    assert (plan.quick, plan.iterations) == (False, QUICK_ON_MODEL)
    assert (plan.repetitions, plan.window_s, plan.pairs) == (full.repetitions, full.window_s, full.pairs)
    assert plan.limits == {"errors": 0.5}


def test_what_is_given_wins(tmp_path: Path) -> None:
    asked = TuneRequest(
        SLICE, iterations=15, pairs=12, window_s=20.0, given=frozenset({"iterations", "pairs", "window_s"})
    )
    for modelled in (False, True):
        machine = PretendMachine(VirtualClock(), larger_is_faster, modelled=modelled)
        (tmp_path / str(modelled)).mkdir()
        tailor, _ = pretend_tailor(tmp_path / str(modelled), machine)
        plan = tailor.studies.prepared(quick(asked)).plan
        assert (plan.iterations, plan.pairs, plan.window_s) == (15, 12, 20.0)
        assert plan.repetitions == (3 if modelled else 2)
