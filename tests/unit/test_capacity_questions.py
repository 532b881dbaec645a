"""Machines of today, other copies, later years, services of one application, gain of tuning: from the same cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.capacity.answers import CurrentState, Plans
from framework.capacity.counting import Request
from framework.capacity.demand import demand
from framework.capacity.laws import fit
from framework.capacity.measured import with_cpu_ratio
from framework.capacity.nodes import MeasuredNode, Traffic
from framework.capacity.plan import plan
from framework.capacity.questions import tuning_gain
from framework.errors import FieldError
from framework.model import Estimate
from framework.model.capacity import Current, Interval, MachineType, ScalingPoint
from framework.report.plan_words import gain_in_words, state_in_words, year_in_words
from tests.unit.test_capacity_plan import CATALOGUE, EXACTLY, NEED, NODE, costs, machine, needs
from tests.unit.test_capacity_plan import planned as planned_with


def planned(changes: dict[str, Any], catalogue: list[MachineType] = CATALOGUE, node: MeasuredNode = NODE) -> Plans:
    return plan(Request(replace(NEED, **changes), node, 60, most_nodes=10**9), catalogue)


def current(machines: str, nodes: int, **more: Any) -> CurrentState:
    state = planned({"current": Current(machines, nodes, **more)}).current
    assert state is not None
    return state


def test_what_runs_now_is_compared_with_what_is_proposed() -> None:
    cheapest = planned({}).plans[0]
    middle = next(entry for entry in planned({}).plans if entry.machine.name == "middle")
    as_planned = current("middle", middle.nodes)
    assert as_planned.enough
    assert as_planned.needed == middle.nodes
    assert as_planned.covered >= 0.9
    assert as_planned.cost_per_hour == middle.cost_per_hour
    assert as_planned.saving_per_hour == pytest.approx(middle.cost_per_hour - cheapest.cost_per_hour)
    few = current("middle", middle.nodes - 2)
    assert not few.enough
    assert few.last_year is None
    assert few.covered < as_planned.covered
    assert few.binding == middle.binding
    many = current("middle", 2 * middle.nodes)
    assert many.enough
    assert many.saving is not None
    assert many.saving >= 0.5
    words = " ".join(state_in_words(few, "EUR"))
    assert f"now: {middle.nodes - 2} x middle" in words
    assert "of the cases only" in words
    assert "EUR/hour more" in words or "EUR/hour less" in words


def test_what_runs_now_is_enough_for_some_years() -> None:
    growing = {"growth": Interval.exactly(1.5), "years": 4}
    middle = next(entry for entry in planned(growing).plans if entry.machine.name == "middle")
    until = [year.nodes or 0 for year in middle.years]
    state = planned({**growing, "current": Current("middle", until[2])}).current
    assert state is not None
    assert state.last_year == 2


def test_another_price_is_paid_now() -> None:
    state = current("middle", 10, price_per_hour=0.25)
    assert state.cost_per_hour == 2.5


@pytest.mark.parametrize(
    ("stated", "catalogue", "says"),
    [
        (Current("midle", 3), CATALOGUE, r"found 'midle'; allowed: one of the 6 types .*did you mean 'middle'"),
        (Current("m", 3), [machine(), replace(machine(), region="s")], "the key 'region' with one of r, s"),
        (
            Current("m", 3, region="t"), [machine(), replace(machine(), region="s")],
            "found \"region 't'\"; allowed: the catalogue prices m only with region one of r, s",
        ),
        (Current("m", 3), [machine(), replace(machine(), purchase="spot")], "with one of on-demand, spot"),
        (Current("m", 3), [machine(price=None), machine("n")], "a machine type with a price"),
    ],
)  # fmt: skip
def test_a_machine_that_the_catalogue_does_not_have_is_refused(
    stated: Current, catalogue: list[MachineType], says: str
) -> None:
    with pytest.raises(FieldError, match=says):
        planned({"current": stated}, catalogue)


def test_a_year_beyond_the_most_nodes_has_no_cost_and_nothing_dearer_is_the_cheapest_then() -> None:
    growing = replace(NEED, growth=EXACTLY(2.0), years=5)
    answer = plan(Request(growing, NODE, 60, most_nodes=60), CATALOGUE)
    kept = answer.plans[0].years
    assert any(year.cost_per_year is None and (year.nodes or 0) > 60 for year in kept)
    for row, (year, best) in enumerate(zip(kept, answer.by_year, strict=True)):
        assert (year.cost_per_year is None) == (year.nodes is None or year.nodes > 60)
        assert best.nodes is None or best.nodes <= 60
        words = year_in_words(answer, row)
        assert f"for {year.binding}" in words
        if year.cost_per_year is not None and "cheapest then" in words:
            assert (best.cost_per_year or 0) < year.cost_per_year
        if year.cost_per_year is None:
            assert "more than the 60 allowed" in words
            assert "cheapest then" in words or "no type has a plan then" in words
    assert answer.plans[0].cost_of_years is None


def test_machines_of_which_too_little_is_known_have_no_answer() -> None:
    state = planned({"current": Current("odd", 3)}, [*CATALOGUE, machine("odd", ram_gib=None)]).current
    assert state is not None
    assert (state.needed, state.enough) == (None, False)
    assert state.reason == "not in the catalogue: memory"
    assert "it cannot be said whether they are enough" in " ".join(state_in_words(state, "EUR"))


def test_what_runs_now_is_marked_where_it_is_unlike_what_was_measured() -> None:
    huge = planned({"current": Current("huge", 3)}, [*CATALOGUE, machine("huge", cores=128.0)]).current
    assert huge is not None
    assert huge.extrapolated
    assert "now: 3 x huge (extrapolated)" in state_in_words(huge, "EUR")[0]
    assert "(extrapolated)" not in state_in_words(current("middle", 3), "EUR")[0]


def test_machines_of_which_no_number_is_enough_are_said_to_be_too_few() -> None:
    full = planned({"clients": EXACTLY(1e6), "connection": EXACTLY(1e6), "current": Current("middle", 3)},
                   [*CATALOGUE, machine("vast", ram_gib=2_000.0)]).current  # fmt: skip
    assert full is not None
    assert (full.needed, full.enough, full.covered) == (None, False, 0.0)
    assert "they are not enough: no number of them is enough, for memory" in state_in_words(full, "EUR")


def test_more_copies_and_domains_are_told_and_never_cheaper_than_fewer() -> None:
    rows = {(row.replicas, row.failure_domains): row.cost_per_hour or math.inf for row in planned({}).availability}
    assert set(rows) == {(1, 1), (2, 1), (2, 2), (3, 1), (3, 3)}
    assert rows[1, 1] <= rows[2, 1] <= rows[3, 1]
    assert rows[2, 1] <= rows[2, 2]
    assert rows[2, 2] == planned({}).plans[0].cost_per_hour, "as asked"


def test_the_cheapest_type_of_each_year_is_never_dearer_than_the_one_of_today() -> None:
    answer = planned({"growth": Interval(1.5, 2.0, 2.5), "years": 5})
    kept = answer.plans[0].years
    assert [year.year for year in answer.by_year] == [0, 1, 2, 3, 4, 5]
    for year, best in zip(kept, answer.by_year, strict=True):
        assert year.cost_per_year is None or (best.cost_per_year or math.inf) <= year.cost_per_year
    assert answer.plans[0].cost_of_years == pytest.approx(sum(year.cost_per_year or 0 for year in kept))


def test_questions_are_asked_about_all_types_however_dear_they_are_today() -> None:
    """25 small types are the cheapest today; one large machine is, alone, for much more of it."""
    small = [
        machine(f"small-{number}", 0.01 + number * 1e-4, cores=2.0, ram_gib=8.0, network_gbps=5.0)
        for number in range(25)
    ]
    catalogue = [*small, machine("large", 1.0, cores=64.0, ram_gib=512.0, network_gbps=100.0)]
    need = replace(NEED, reads=EXACTLY(1e5), writes=EXACTLY(0.0), stored=EXACTLY(5e9), growth=EXACTLY(4.0), years=6)

    def asked(**changes: Any) -> Plans:
        return plan(Request(replace(need, **changes), NODE, 100, most_nodes=40), catalogue)

    today = asked()
    assert [entry.machine.name for entry in today.plans] == [f"small-{number}" for number in range(10)]
    for year, best in enumerate(today.by_year):
        grown = {name: getattr(need, name).times(4.0**year) for name in ("reads", "stored")}
        direct = asked(**grown, years=0).plans
        assert best.machine == (direct[0].machine.name if direct else "")
        assert best.nodes == (direct[0].nodes if direct else None)
    assert {best.machine for best in today.by_year} >= {"small-0", "large"}
    for reads in (1e5, 1e6):
        answer = asked(reads=EXACTLY(reads))
        for row in answer.availability:
            copies = {"replicas": row.replicas, "failure_domains": row.failure_domains}
            first = asked(reads=EXACTLY(reads), **copies).plans[0]
            assert (row.machine, row.cost_per_hour) == (first.machine.name, first.cost_per_hour)
        more = next(row for row in answer.sensitivity if row.amount == "reads")
        assert more.machine == asked(reads=EXACTLY(1.2 * reads)).plans[0].machine.name


@settings(max_examples=15, deadline=None)
@given(needs, st.integers(1, 10**6), st.integers(1, 10**6))
def test_more_machines_of_today_are_never_enough_for_less(need: Any, nodes: int, more: int) -> None:
    states = [
        plan(Request(replace(need, current=Current("middle", count)), NODE, 40, most_nodes=10**9), CATALOGUE).current
        for count in (nodes, nodes + more)
    ]
    few, many = states
    assert few is not None
    assert many is not None
    assert few.covered <= many.covered
    assert few.enough <= many.enough


SERVICES = {"reads": {"web": 6e-6, "cache": 3e-6, "db": 1e-6}, "writes": {"web": 6e-6, "db": 14e-6}}


def test_services_are_planned_together_and_apart() -> None:
    node = replace(NODE, services=SERVICES)
    chosen = planned({"reads": EXACTLY(2e7), "stored": EXACTLY(1e9)}, [machine()], node).plans[0]
    assert [service.service for service in chosen.services] == ["web", "cache", "db"]
    assert sum(service.share for service in chosen.services) == pytest.approx(1)
    assert chosen.nodes_apart >= chosen.by_resource["cpu"], "whole nodes of each service are no fewer"
    assert all(service.nodes_apart % 2 == 0 for service in chosen.services), "in two failure domains"
    assert all(service.nodes_apart >= 2 for service in chosen.services)
    read_s, write_s = (16 / float(law.rps(16)) for law in node.laws())
    busy = 2e7 * read_s + 1e5 * 2 * write_s
    assert sum(service.busy_cores for service in chosen.services) == pytest.approx(busy)
    web = 2e7 * read_s * 0.6 + 1e5 * 2 * write_s * 0.3
    assert chosen.services[0].busy_cores == pytest.approx(web)
    assert planned({}).plans[0].services == ()


def test_the_software_and_its_headers_count() -> None:
    [lean] = planned({}, [CATALOGUE[2]]).plans
    [fat] = planned({}, [CATALOGUE[2]], replace(NODE, software_bytes=512 * 2**30)).plans
    assert fat.by_resource["memory"] > 1.5 * lean.by_resource["memory"]
    full = planned({}, [CATALOGUE[1]], replace(NODE, software_bytes=300 * 2**30))
    assert full.refused[0].reason == "the software and the connections of all clients fill its memory"
    [chatty] = planned({}, [CATALOGUE[2]], replace(NODE, traffic={"reads": Traffic(2_000.0, 4_096.0)})).plans
    assert chatty.by_resource["network out"] >= 2 * lean.by_resource["network out"] - 2
    assert chatty.by_resource["network in"] > lean.by_resource["network in"]
    [quiet] = planned({}, [CATALOGUE[2]], replace(NODE, traffic={"reads": Traffic(1.0, 1.0)})).plans
    assert quiet.by_resource == lean.by_resource, "at least the records themselves"


def gain_of(ratio: Estimate, catalogue: Sequence[MachineType] = CATALOGUE, **changes: Any) -> Any:
    node = replace(NODE, reads=with_cpu_ratio(NODE.reads, ratio, 1), writes=None)
    default = replace(NODE, writes=None)
    requests = tuple(Request(replace(NEED, **changes), kind, 300, most_nodes=10**9) for kind in (default, node))
    plans = tuple(plan(request, catalogue).plans[0] for request in requests)
    wanted = demand(requests[0].need, 300, 0)
    return tuning_gain("s1", (requests[0], requests[1]), (plans[0], plans[1]), wanted, ratio=ratio)


def test_the_gain_of_tuning_in_money() -> None:
    busy: dict[str, Any] = {"reads": EXACTLY(1e7), "stored": EXACTLY(1e9), "record": EXACTLY(16.0)}  # the CPU binds
    gain = gain_of(Estimate(0.5, 0.48, 0.52, 10), **busy)
    assert gain.saving == pytest.approx(0.5, abs=0.12)
    assert gain.shown
    assert gain.saving_per_hour.low <= gain.saving_per_hour.likely <= gain.saving_per_hour.high
    assert gain.saving_per_year == pytest.approx(8760 * gain.saving_per_hour.likely)
    assert gain.cpu_ratio == Interval(0.48, 0.5, 0.52)
    unsure = gain_of(Estimate(0.98, 0.6, 1.6, 6), **busy)
    assert not unsure.shown
    idle = gain_of(Estimate(0.5, 0.48, 0.52, 10))
    assert idle.saving_per_hour.likely == 0, "memory binds, whichever the configuration"
    assert not idle.shown


def test_cases_without_an_answer_are_no_saving() -> None:
    """Where the clients fill the memory with both configurations nothing is compared; with one, the gain has no end."""
    crowded: dict[str, Any] = {"clients": Interval(1e3, 1e4, 8.7e6), "connection": EXACTLY(32_768.0)}
    gain = gain_of(Estimate(0.5, 0.48, 0.52, 10), [machine()], **crowded)
    assert 0.02 < gain.unanswered < 0.1
    saving = gain.saving_per_hour
    assert saving.low <= saving.likely <= saving.high
    assert f"without the {gain.unanswered:.1%} in which" in gain_in_words(gain, "EUR")
    assert "without" not in gain_in_words(gain_of(Estimate(0.5, 0.48, 0.52, 10)), "EUR")
    # The default's software leaves less memory for the clients, so that it alone has no answer in 7 % of the cases.
    fat, fewer = replace(NODE, software_bytes=41 * 2**30), {**crowded, "clients": Interval(1e3, 1e4, 7.44e6)}
    requests = tuple(Request(replace(NEED, **fewer), kind, 300, most_nodes=10**9) for kind in (fat, NODE))
    plans = tuple(plan(request, [machine()]).plans[0] for request in requests)
    wanted = demand(requests[0].need, 300, 0)
    endless = tuning_gain("s1", (requests[0], requests[1]), (plans[0], plans[1]), wanted, ratio=None)
    assert endless.saving_per_hour.high == math.inf
    assert math.isfinite(endless.saving_per_hour.low)
    assert "to no end EUR per hour" in gain_in_words(endless, "EUR")


def test_no_case_with_an_answer_leaves_the_gain_without_ends() -> None:
    """Only in the likely case are there machines: in all others the clients fill their memory."""
    wanted = demand(replace(NEED, clients=EXACTLY(1e4), connection=EXACTLY(32_768.0)), 100, 0)
    crowded = replace(wanted, clients=np.concatenate([wanted.clients[:1], np.full(100, 1e9)]))
    request = Request(replace(NEED, clients=EXACTLY(1e4), connection=EXACTLY(32_768.0)), NODE, 100, most_nodes=10**9)
    cheapest = plan(request, [machine()]).plans[0]
    gain = tuning_gain("s1", (request, request), (cheapest, cheapest), crowded, ratio=None)
    assert (gain.saving_per_hour.low, gain.saving_per_hour.high) == (-math.inf, math.inf)
    assert (gain.unanswered, gain.shown) == (1, False)


def test_an_unbounded_ratio_is_a_wide_law() -> None:
    law = fit([ScalingPoint(n, 100.0 * n, 1.0) for n in (1, 2, 4, 8)])
    wide = with_cpu_ratio(law, Estimate(0.9, 0.0, math.inf, 3), 1).predict(8).rps
    assert wide.likely == pytest.approx(800 / 0.9, rel=0.01)
    assert wide.high > 3 * wide.low


def test_the_catalogue_of_all_regions_is_searched_for_what_runs_now() -> None:
    elsewhere = replace(machine("old"), region="elsewhere")
    request = Request(replace(NEED, current=Current("old", 4)), NODE, 60)
    state = plan(request, CATALOGUE, [*CATALOGUE, elsewhere]).current
    assert state is not None
    assert state.machine is elsewhere
    assert costs(planned_with(NEED)) == costs(planned({}))
