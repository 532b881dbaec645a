"""The planner and the guard count energy: by the processor of a machine type, and by the CPU time of both sides."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from framework.energy.power_catalogue import curve_of
from framework.model.energy import PowerCurve
from framework.model.guard_record import Began, entry_document, entry_of
from framework.report.guard import guard_page, summarised
from framework.report.plan_words import power_in_words
from tests.guard_audits import entries
from tests.unit.test_capacity_plan import CATALOGUE, NEED, machine, planned

CURVE = PowerCurve(10.0, 30.0)


def test_a_plan_has_the_power_of_its_processor() -> None:
    [plan] = planned(NEED, [machine("m", processor="AMD EPYC 7763 64-Core Processor", vcpus=32.0)]).plans
    curve = curve_of("AMD EPYC 7763 64-Core Processor", 32)
    assert curve is not None
    assert plan.watts is not None
    assert plan.nodes * curve.idle_w < plan.watts.likely <= plan.nodes * curve.full_w
    assert plan.watts.low < plan.watts.likely < plan.watts.high
    assert plan.kwh_per_year is not None
    assert plan.kwh_per_year.likely == pytest.approx(plan.watts.likely * 8.76)
    said = power_in_words(plan)
    assert "ESTIMATED" in said
    assert "kWh a year" in said


def test_more_load_takes_more_power_on_as_many_machines() -> None:
    [some] = planned(NEED, [machine("m", processor="AMD EPYC 7763", vcpus=32.0)]).plans
    [more] = planned(
        replace(NEED, reads=NEED.reads.times(1.2)), [machine("m", processor="AMD EPYC 7763", vcpus=32.0)]
    ).plans
    assert some.watts is not None
    assert more.watts is not None
    assert more.watts.likely > some.watts.likely


def test_of_an_unknown_processor_nothing_is_said() -> None:
    for plan in planned(NEED, CATALOGUE).plans:
        assert plan.watts is None
        assert plan.kwh_per_year is None
        assert power_in_words(plan) == ""


def test_a_guard_divides_the_joules_between_idle_lc_and_be() -> None:
    began, *rest = entries()
    assert isinstance(began, Began)
    log = [replace(began, power=CURVE), *rest]
    summary = summarised(log)
    assert summary.idle_j == pytest.approx(40.0), "four seconds"
    # 1 s with 0.5 cores of LC and 1 of BE on two cores; then 3 s with 0.5 cores of LC alone.
    assert summary.lc_j == pytest.approx(15.0 / 3 + 3 * 5.0)
    assert summary.be_j == pytest.approx(2 * 15.0 / 3)
    page = guard_page(log)
    assert "ESTIMATED from the CPUs' utilisation" in page
    assert "for a core second of theirs" in page
    document = json.loads(json.dumps(entry_document(log[0])))
    assert entry_of(document) == log[0]
    del document["power"]
    assert entry_of(document) == began, "a log from before energy was counted is read"
    assert "ESTIMATED" not in guard_page(entries())
