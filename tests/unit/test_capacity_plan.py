"""Plans: more load is never cheaper, a dearer catalogue neither, a plan meets its need, and the source's case."""

from __future__ import annotations

import heapq
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.capacity.answers import Plans
from framework.capacity.counting import Request
from framework.capacity.law_draws import throughput
from framework.capacity.laws import fit
from framework.capacity.media import compare_media
from framework.capacity.nodes import MeasuredNode, mean_wait, most_busy, pooled_cores
from framework.capacity.plan import plan
from framework.errors import FieldError
from framework.model.capacity import Interval, MachineType, Need, OnDisk, ScalingPoint, Snapshots
from framework.report.plan_words import assumption, not_considered, plan_name

EXAMPLES = Path(__file__).parents[2] / "examples"
EXACTLY = Interval.exactly
SIZES = (1, 2, 4, 8, 16)
NODE = MeasuredNode(
    fit([ScalingPoint(n, float(throughput(n, 80_000, 0.02, 0.0))) for n in SIZES]),
    fit([ScalingPoint(n, float(throughput(n, 50_000, 0.04, 0.0))) for n in SIZES], seed=1),
)
NEED = Need(
    "a store", EXACTLY(2e6), EXACTLY(1e5), EXACTLY(1e12), EXACTLY(1024), key_bytes=8, latency_s=EXACTLY(1e-3),
    replicas=2, failure_domains=2, load_factor=0.8, headroom=0.2,
)  # fmt: skip


def machine(name: str = "m", price: float | None = 1.0, **sizes: float | str | None) -> MachineType:
    defaults = {"cores": 16.0, "ram_gib": 256.0, "network_gbps": 25.0, "disk_gib": 4000.0, "disk_mb_s": 2000.0}
    whole = {**defaults, "iops": 400_000.0, "currency": "EUR", **sizes}
    return MachineType(name, "p", "r", "on-demand", price, priced_on="2026", source="s", **whole)  # type: ignore[arg-type]


CATALOGUE = [
    machine("small", 0.4, cores=4.0, ram_gib=32.0, network_gbps=10.0),
    machine("middle", 1.0),
    machine("memory", 2.0, ram_gib=1024.0),
    machine("cpu", 1.8, cores=48.0),
    machine("network", 1.5, network_gbps=100.0),
    machine("disk", 0.9, ram_gib=64.0, disk_gib=20_000.0),
]


def planned(need: Need, catalogue: list[MachineType] = CATALOGUE, draws: int = 60, **options: object) -> Plans:
    return plan(Request(need, NODE, draws, most_nodes=10**9, **options), catalogue)  # type: ignore[arg-type]


def costs(plans: Plans) -> dict[str, float]:
    return {plan.machine.name: plan.cost_per_hour for plan in plans.plans}


amounts = st.floats(1e3, 1e7)
needs = st.builds(
    lambda reads, writes, stored, clients, wide, replicas, domains, on_disk, snapshots, limit: Need(
        "n", Interval(reads / wide, reads, reads * wide), EXACTLY(writes), Interval(stored, stored, stored * wide),
        EXACTLY(1024), EXACTLY(clients), 8, EXACTLY(32_768), EXACTLY(limit),
        replicas=max(replicas, min(domains, 2)), failure_domains=domains, load_factor=0.75, headroom=0.1,
        on_disk=OnDisk(0.1, 0.8, 1e-4) if on_disk else None, snapshots=Snapshots(2, 300) if snapshots else None,
    ),
    amounts, amounts, st.floats(1e9, 1e14), st.floats(1, 1e5), st.floats(1, 3), st.integers(1, 3), st.integers(1, 3),
    st.booleans(), st.booleans(), st.floats(1e-5, 1e-2),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(needs, st.sampled_from(["reads", "writes", "stored", "clients"]), st.floats(1, 10))
def test_more_load_is_never_cheaper(need: Need, amount: str, factor: float) -> None:
    more = replace(need, **{amount: getattr(need, amount).times(factor)})
    before, after = costs(planned(need)), costs(planned(more))
    assert set(after) <= set(before), "a type that is too weak for less is too weak for more"
    assert all(after[name] >= before[name] for name in after)
    assert not after or min(after.values()) >= min(before.values())


@settings(max_examples=25, deadline=None)
@given(needs, st.lists(st.floats(1, 5), min_size=len(CATALOGUE), max_size=len(CATALOGUE)))
def test_a_dearer_catalogue_never_gives_a_cheaper_plan(need: Need, factors: list[float]) -> None:
    dearer = [
        replace(entry, price_per_hour=(entry.price_per_hour or 0) * factor)
        for entry, factor in zip(CATALOGUE, factors, strict=True)
    ]
    before, after = costs(planned(need)), costs(planned(need, dearer))
    assert set(before) == set(after)
    assert not after or min(after.values()) >= min(before.values())


@settings(max_examples=15, deadline=None)
@given(needs, st.floats(0, 0.7), st.integers(1, 3))
def test_more_headroom_and_a_stricter_limit_are_never_cheaper(need: Need, headroom: float, slower: int) -> None:
    assert need.latency_s is not None
    strict = replace(need, headroom=need.headroom + headroom * 0.2, latency_s=need.latency_s.times(1 / slower))
    before, after = costs(planned(need)), costs(planned(strict))
    assert all(after[name] >= before[name] for name in after)


def mean_time(arrivals_per_s: float, service_s: float, cores: int, seed: int, requests: int = 40_000) -> float:
    """Simulate one node: arrivals at random, exponential service, first come first served; mean seconds in it."""
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(1 / arrivals_per_s, requests)).tolist()
    free_at = [0.0] * cores
    spent = 0.0
    for arrival, service in zip(arrivals, random.exponential(service_s, requests).tolist(), strict=True):
        done = max(arrival, heapq.heappop(free_at)) + service
        heapq.heappush(free_at, done)
        spent += done - arrival
    return spent / requests


def failing(need: Need, nodes: int, kind: MachineType, node: MeasuredNode, seed: int = 0) -> set[str]:
    """Return what equal nodes fail in, by numbers of our own: one failure domain is lost, time is simulated."""
    left = nodes - (nodes // need.failure_domains if need.failure_domains > 1 else 0)
    cores, copies = int(kind.cores or 0), need.replicas
    reads, writes, size = need.reads.likely, need.writes.likely, need.record.likely + need.key_bytes
    read_s, write_s = (cores / float(law.rps(cores)) for law in node.laws())
    work_s, requests = reads * read_s + writes * copies * write_s, reads + writes * copies
    records = need.stored.likely / need.record.likely * size * copies / nodes
    memory = need.clients.likely * need.connection.likely
    disk, operations, disk_s = 0.0, 0.0, 0.0
    written = records / need.snapshots.every_s if need.snapshots else 0.0
    if need.on_disk is not None:
        memory += records * need.on_disk.cached / need.load_factor
        disk += records
        operations = ((1 - need.on_disk.hits) * reads + writes * copies) / left
        written += writes * copies * size / left
        disk_s = (1 - need.on_disk.hits) * need.on_disk.read_s
    else:
        memory += records / need.load_factor
    disk += records * need.snapshots.kept if need.snapshots else 0.0
    fails = {
        "cpu": work_s / left > cores,
        "memory": memory > (kind.ram_gib or 0) * 2**30,
        "network out": (reads + writes * (copies - 1)) * size * 8 / left > (kind.network_gbps or 0) * 1e9,
        "network in": (reads * need.key_bytes + writes * copies * size) * 8 / left > (kind.network_gbps or 0) * 1e9,
        "disk": disk > (kind.disk_gib or 0) * 2**30,
        "disk writes": written > (kind.disk_mb_s or 0) * 1e6,
        "iops": operations > (kind.iops or 0),
        "failure domains": nodes < max(copies, need.failure_domains) or nodes % need.failure_domains > 0,
    }
    if need.latency_s is not None and not fails["cpu"]:
        spent = mean_time(requests / left, work_s / requests, cores, seed) + disk_s
        fails["mean time"] = spent > need.latency_s.likely
    return {name for name, failed in fails.items() if failed}


@settings(max_examples=15, deadline=None)
@given(
    reads=st.floats(1e4, 1e7), writes=st.floats(1e3, 1e6), stored=st.floats(1e10, 1e13), domains=st.integers(1, 3),
    limit=st.floats(6e-5, 1e-3), headroom=st.floats(0, 0.5), on_disk=st.booleans(), snapshots=st.booleans(),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_a_plan_meets_its_need_in_a_simulation(
    reads: float, writes: float, stored: float, domains: int, limit: float, headroom: float, on_disk: bool,
    snapshots: bool, seed: int,
) -> None:  # fmt: skip
    need = replace(
        NEED, reads=EXACTLY(reads), writes=EXACTLY(writes), stored=EXACTLY(stored), failure_domains=domains,
        latency_s=EXACTLY(limit), headroom=headroom, clients=EXACTLY(1000), connection=EXACTLY(32_768),
        on_disk=OnDisk(0.1, 0.8, 5e-5) if on_disk else None, snapshots=Snapshots(2, 300) if snapshots else None,
    )  # fmt: skip
    answer = planned(need)
    assert answer.plans
    chosen = answer.plans[0]
    assert failing(need, chosen.nodes, chosen.machine, NODE, seed) == set()


BINDING: dict[str, dict[str, object]] = {
    "cpu": {"reads": EXACTLY(1e8), "record": EXACTLY(8.0), "key_bytes": 0},
    "memory": {"stored": EXACTLY(1e14)},
    "network out": {"reads": EXACTLY(2e6), "record": EXACTLY(1e5)},
    "network in": {"reads": EXACTLY(1.0), "writes": EXACTLY(1e6), "record": EXACTLY(1e5), "replicas": 3},
    "disk": {"snapshots": Snapshots(50, 1e6)},
    "disk writes": {"snapshots": Snapshots(1, 1.0)},
    "iops": {"on_disk": OnDisk(0.01, 0.01, 1e-5), "record": EXACTLY(10.0)},
    "failure domains": {"stored": EXACTLY(1e6), "reads": EXACTLY(10.0), "writes": EXACTLY(10.0)},
}  # fmt: skip


@pytest.mark.parametrize("resource", BINDING)
def test_what_binds_is_named_and_fewer_nodes_fail_in_it(resource: str) -> None:
    need = replace(NEED, headroom=0.0, **BINDING[resource])  # type: ignore[arg-type]
    [chosen] = planned(need, [CATALOGUE[1]]).plans
    assert chosen.binding == resource
    assert failing(need, chosen.nodes, chosen.machine, NODE) == set()
    fewer = chosen.nodes // 2 if resource == "cpu" else chosen.nodes - need.failure_domains
    assert resource in failing(need, max(1, fewer), chosen.machine, NODE)


def test_the_simulation_notices_that_requests_wait_too_long() -> None:
    need = replace(NEED, headroom=0.0, latency_s=EXACTLY(2.2e-5), **BINDING["cpu"] | {"writes": EXACTLY(0.0)})  # type: ignore[arg-type]
    [chosen] = planned(need, [CATALOGUE[1]]).plans
    assert failing(need, chosen.nodes, chosen.machine, NODE) == set()
    busy = 1e8 / float(NODE.reads.rps(16))  # nodes that would be busy all the time
    few = round(busy / 0.97 * 2 / 2) * 2
    assert failing(need, few, chosen.machine, NODE) == {"mean time"}


@pytest.mark.parametrize(("resource", "amount"), [("cpu", "reads"), ("memory", "stored"), ("disk writes", "stored")])
def test_a_plan_is_enough_in_as_many_cases_as_it_says(resource: str, amount: str) -> None:
    need = replace(NEED, headroom=0.0, latency_s=None, **BINDING[resource])  # type: ignore[arg-type]
    middle = getattr(need, amount).likely
    ends = (0.5 * middle, middle, 4 * middle)

    def having(interval: Interval) -> Need:
        changed: dict[str, Any] = {amount: interval}
        return replace(need, **changed)

    [chosen] = planned(having(Interval(*ends)), [CATALOGUE[1]], draws=2_000).plans
    assert chosen.binding == resource
    drawn_here = np.random.default_rng(1).triangular(*ends, 1_000).tolist()

    def enough(nodes: int) -> float:
        cases = [having(EXACTLY(value)) for value in drawn_here]
        rounds = most_busy(np.array(16.0)) / 16 if resource == "cpu" else 1.0
        return float(
            np.mean([resource not in failing(case, int(nodes * rounds), chosen.machine, NODE) for case in cases])
        )

    assert 0.87 <= enough(chosen.nodes) <= 0.93


REFUSED = {
    "no price": ({"price": None}, {}, "no price in the catalogue"),
    "another currency": ({"currency": "USD"}, {}, "priced in USD, this plan is in EUR"),
    "no memory": ({"ram_gib": None}, {}, "not in the catalogue: memory"),
    "no memory and cores": ({"ram_gib": None, "cores": None}, {}, "not in the catalogue: cores, memory"),
    "no network": (
        {"network_gbps": None}, {},
        "nodes, more than the 1,000 allowed (with 10 Mbit/s each, as the catalogue does not tell their network)",
    ),
    "too many cores": ({"cores": 65.0}, {}, "65 cores are more than 4 times the 16 measured"),
    "half a core": ({"cores": None, "vcpus": 1.0}, {}, "less than one physical core, which no law is about"),
    "no disk known": ({"disk_gib": None}, {"snapshots": Snapshots(2, 300)}, "not in the catalogue: disk"),
    "no disk": ({"disk_gib": 0.0}, {"snapshots": Snapshots(2, 300)}, "no disk of its own"),
    "no IOPS": ({"iops": None}, {"on_disk": OnDisk(0.1, 0.5, 1e-4)}, "not in the catalogue: IOPS"),
    "too slow": ({}, {"latency_s": EXACTLY(1e-6)}, "a request takes longer than the limit on its cores"),
    "full of connections": (
        {"ram_gib": 1.0}, {"clients": EXACTLY(1e5), "connection": EXACTLY(1e5)}, "connections of all clients fill"
    ),
    "too many nodes": ({"ram_gib": 0.1}, {}, "memory would take"),
}  # fmt: skip


@pytest.mark.parametrize(("sizes", "changes", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_refused_type_has_its_reason(sizes: dict[str, float], changes: dict[str, object], reason: str) -> None:
    request = Request(replace(NEED, **changes), NODE, 60, currency="EUR")  # type: ignore[arg-type]
    answer = plan(request, [machine("bad", **sizes), machine("good")])
    [refused] = [entry for entry in answer.refused if entry.machine.name == "bad"]
    assert reason in refused.reason


def test_a_network_that_is_not_told_is_assumed_to_be_small_and_marked() -> None:
    small = replace(NEED, reads=EXACTLY(100.0), writes=EXACTLY(10.0), stored=EXACTLY(1e9))
    untold, told = machine("untold", 0.5, network_gbps=None), machine("told", 1.0)
    answer = plan(Request(small, NODE, 60), [untold, told, machine("odd", cores=None)])
    first, second = answer.plans
    assert (first.machine.name, first.nodes) == ("untold", 2)
    assert plan_name(first) == "untold r (network assumed)"
    assert plan_name(second) == "told r"
    assert assumption(answer).startswith("network assumed: ")
    assert not_considered(answer) == (
        "1 type could not be considered, as the catalogue does not tell what the need asks about: cores of 1"
    )
    [many] = plan(Request(replace(small, reads=EXACTLY(1e4)), NODE, 60), [untold]).plans
    bits = (1e4 + 10) * (1024 + 8) * 8
    assert many.by_resource["network out"] == pytest.approx(bits / 1e7 / 0.8 / 0.5)
    assert many.binding == "network out"
    busy = plan(Request(NEED, NODE, 60), [untold, told])
    assert [entry.machine.name for entry in busy.plans] == ["told"]
    assert assumption(busy) == ""
    assert not_considered(busy).endswith("network of 1")


def test_resources_alone_are_not_rounded_to_the_failure_domains() -> None:
    alone = planned(replace(NEED, reads=EXACTLY(100.0), stored=EXACTLY(1e9))).plans[0].by_resource
    assert 0 < alone["memory"] < 0.5
    assert 0 < alone["network in"] < 0.5
    assert alone["failure domains"] == 2


def test_more_cores_than_measured_are_marked_where_they_are_asked_for() -> None:
    asked = replace(NODE, extrapolate=True)
    [chosen] = plan(Request(NEED, asked, 60), [machine(cores=65.0)]).plans
    assert chosen.extrapolated
    assert not planned(NEED, [machine(cores=64.0)]).plans[0].extrapolated


def test_cores_of_another_kind_count_by_their_stated_speed() -> None:
    busy = replace(NEED, reads=EXACTLY(1e7), stored=EXACTLY(1e9))
    slow = replace(NODE, speeds={"*Graviton*": Interval(0.4, 0.5, 0.6)})
    kinds = [machine("arm", processor="AWS Graviton2 Processor"), machine("x86", processor="Xeon")]
    arm, x86 = sorted(plan(Request(busy, slow, 200), kinds).plans, key=lambda chosen: chosen.machine.name)
    assert (arm.speed, x86.speed) == (Interval(0.4, 0.5, 0.6), None)
    assert 1.8 <= arm.nodes / x86.nodes <= 2.6
    assert arm.needed.high / arm.needed.low > x86.needed.high / x86.needed.low


def test_an_interval_of_the_need_becomes_one_of_the_cost() -> None:
    wide = replace(NEED, reads=Interval(5e6, 1e7, 4e7))
    chosen = planned(wide, draws=500).plans[0]
    assert chosen.cost_range.low < chosen.cost_per_hour <= chosen.cost_range.high
    assert chosen.cost_per_hour == chosen.nodes * (chosen.machine.price_per_hour or 0)
    assert chosen.cost_per_year == pytest.approx(8760 * chosen.cost_per_hour)
    assert chosen.cost_per_million_requests == pytest.approx(chosen.cost_per_hour / (10.1e6 * 3600) * 1e6)
    sure, likely = planned(wide, draws=500, confidence=1.0).plans[0], chosen.needed.likely
    assert sure.nodes >= chosen.nodes >= likely


def test_growth_takes_more_nodes_each_year_and_20_percent_more_costs_no_less() -> None:
    answer = planned(replace(NEED, growth=Interval(1.2, 1.5, 2.0), years=4))
    chosen = answer.plans[0]
    counts = [year.nodes or 0 for year in chosen.years]
    assert counts[0] == chosen.nodes
    assert counts == sorted(counts)
    assert len(counts) == 5
    assert counts[-1] > counts[0]
    assert {row.amount for row in answer.sensitivity} == {"reads", "writes", "stored", "record", "latency limit / 1.2"}
    assert all((row.change or 0) >= 0 for row in answer.sensitivity if row.amount != "record")


def test_plans_are_ranked_and_the_same_again() -> None:
    first = planned(NEED)
    assert [entry.cost_per_hour for entry in first.plans] == sorted(entry.cost_per_hour for entry in first.plans)
    assert first == planned(NEED)


def test_bad_requests_are_refused() -> None:
    for changes, says in (
        ({"draws": 0}, "draws"), ({"confidence": 0.0}, "confidence"), ({"currency": "XXX"}, "currency"),
        ({"most_nodes": 0}, "most_nodes"),
    ):  # fmt: skip
        with pytest.raises(FieldError, match=says):
            plan(replace(Request(NEED, NODE), **changes), CATALOGUE)
    with pytest.raises(FieldError, match="catalogue"):
        plan(Request(NEED, NODE), [])
    with pytest.raises(FieldError, match="currency"):
        plan(Request(NEED, NODE), [machine(), machine(currency="USD")])


def test_staffing_and_waiting() -> None:
    assert pooled_cores(154.6) == pytest.approx(176.5, abs=0.1)
    busy = most_busy(np.array([1.0, 16.0, 128.0]))
    assert [pooled_cores(value) for value in busy.tolist()] == pytest.approx([1, 16, 128])
    waits = mean_wait(np.array([1e-3]), np.array([12.0]), np.array([16.0]))
    assert mean_time(12_000, 1e-3, 16, 1, 200_000) - 1e-3 == pytest.approx(waits[0], rel=0.3)


def test_disks_are_cheaper_where_much_is_stored_and_little_is_missed() -> None:
    need = replace(NEED, reads=EXACTLY(2e5), writes=EXACTLY(1e4), on_disk=OnDisk(0.05, 0.95, 1e-4))
    comparison = compare_media(Request(need, NODE, 20, most_nodes=10**6), CATALOGUE, sizes=(1e10, 1e12, 1e14))
    small, _, large = comparison.rows
    assert not small.disk_is_cheaper, "two nodes are the least"
    assert large.disk_is_cheaper
    assert small.stored < (comparison.crossover or 0) < large.stored
    slow = replace(need, on_disk=OnDisk(0.05, 0.05, 1e-2))  # a read takes ten times the limit
    refused = compare_media(Request(slow, NODE, 20, most_nodes=10**6), CATALOGUE, sizes=(1e12, 1e14))
    assert refused.crossover is None
    assert refused.rows[0].disk is None
    with pytest.raises(FieldError, match="disk"):
        compare_media(Request(NEED, NODE, 20), CATALOGUE)
