"""Links between hosts, and what calls over them cost a placement."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from framework.config.application import load_application
from framework.model.links import Link, links_in_words, longer_between_ms
from framework.placement.communication import costs_of_calls, slowdowns_of_calls
from framework.placement.domains import Domains, of_hosts
from framework.placement.profile import Profile, read_profile
from framework.placement.reasons import reasons
from framework.placement.space import placement_alone
from framework.testbeds.docker.engine import Engine
from framework.testbeds.swarm import links
from framework.testbeds.swarm.fleet import Node
from optimizer.registry import load
from tests.unit.test_placement_hosts import APP, MOVABLE, SIZES
from tests.unit.test_placement_space import profile_of

LINKS = (
    Link("a", "a", 0.05, 9000.0), Link("b", "b", 0.07, 8000.0), Link("a", "b", 0.2, 900.0), Link("b", "a", 0.3, 700.0),
)  # fmt: skip
EVERY = (*MOVABLE, "url-shorten-db")


def test_a_call_to_another_host_takes_longer_by_the_difference_of_medians() -> None:
    assert longer_between_ms(LINKS) == pytest.approx(0.25 - 0.06)
    assert longer_between_ms(LINKS[:2]) == 0.0, "one host only"
    assert longer_between_ms([replace(link, round_trip_ms=0.1) for link in LINKS]) == 0.0
    assert "0.190 ms longer" in links_in_words(LINKS)
    assert "b to a, 700 Mbit/s" in links_in_words(LINKS)
    assert links_in_words(LINKS[:2]) == ""


@pytest.mark.parametrize(("count", "most"), [(1, 1), (2, 4), (4, 16), (5, 25), (9, 45)])
def test_links_of_many_nodes_grow_with_their_number(count: int, most: int) -> None:
    pairs = list(links.pairs(count))
    assert len(pairs) == len(set(pairs)) == most
    assert {origin for origin, _ in pairs} == {target for _, target in pairs} == set(range(count))
    assert all((number, number) in pairs for number in range(count)), "the reference: within a node"


def node(number: int, host: str) -> Node:
    return Node(host, f"id-{number}", f"name-{number}", "", "unix:///nowhere", Engine(attempts=1))


def test_links_are_kept_while_the_nodes_are_the_same(tmp_path: Path) -> None:
    nodes = [node(1, "a"), node(2, "b")]
    assert links.kept(tmp_path, nodes) == ()
    links.keep(tmp_path, nodes, LINKS)
    assert links.kept(tmp_path, nodes) == links.kept(tmp_path, nodes[::-1]) == LINKS
    assert links.kept(tmp_path, [*nodes, node(3, "c")]) == ()
    assert links.kept(tmp_path, [nodes[0], node(2, "c")]) == (), "another label: the host is another machine"
    (tmp_path / links.FILE).write_text("{")
    assert links.kept(tmp_path, nodes) == ()


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """Each request: nginx calls url-shorten twice, which calls the cache 4 times and its database once."""
    path = profile_of(dict.fromkeys(EVERY, (0.1, 1.01)), tmp_path / "profile.jsonl")
    read = read_profile(path.read_text(), "p")
    calls = {"nginx": {"url-shorten": 2.0}, "url-shorten": {"url-shorten-memcached": 4.0, "url-shorten-db": 1.0}}
    return replace(read, about=replace(read.about, calls=calls))


def hosts(between_ms: float) -> Domains:
    return replace(of_hosts(load_application(APP), SIZES), between_ms=between_ms)


def test_a_caller_is_slowed_down_by_its_calls_per_span(profile: Profile) -> None:
    slowdowns = slowdowns_of_calls(profile, 1.0, "nginx")  # each service's span takes 10 ms in the profile
    assert slowdowns["nginx", "url-shorten"] == pytest.approx(math.log(1.2))
    assert slowdowns["url-shorten", "url-shorten-memcached"] == pytest.approx(math.log(1.2)), "4 calls in 2 spans"
    assert slowdowns["url-shorten", "url-shorten-db"] == pytest.approx(math.log(1.05))
    back = replace(profile, about=replace(profile.about, calls={**profile.about.calls, "user": {"nginx": 1.0}}))
    assert slowdowns_of_calls(back, 1.0, "nginx")["nginx", "url-shorten"] == pytest.approx(math.log(1.1)), "2 visits"


def test_what_stays_costs_its_callers_a_host_each(profile: Profile) -> None:
    costs = costs_of_calls(profile, hosts(1.0), MOVABLE)
    assert costs["nginx"] == {"remote.url-shorten": pytest.approx(math.log(1.2))}
    assert "cost.backend" not in costs["url-shorten"], "there its database is"
    assert costs["url-shorten"]["cost.logic"] == pytest.approx(math.log(1.05))
    assert costs_of_calls(profile, hosts(0.0), MOVABLE) == costs_of_calls(None, hosts(1.0), MOVABLE) == {}


@pytest.mark.parametrize("solver", ["placement-exact", "placement-cpsat"])
def test_solvers_bring_callers_to_where_the_data_are_when_calls_are_dear(profile: Profile, solver: str) -> None:
    def chosen(between_ms: float) -> dict[str, str]:
        space = placement_alone(load_application(APP), hosts(between_ms), profile)
        [asked] = load(solver)(space, seed=1).ask()
        return {name.partition(".")[0]: str(host) for name, host in asked.configuration.items()}

    assert len(set(chosen(0.0).values())) == 3, "interference alone: each on a host of its own"
    assert set(chosen(5.0).values()) == {"backend"}


def test_the_reason_names_what_a_service_calls_on_its_host(profile: Profile) -> None:
    space = placement_alone(load_application(APP), hosts(5.0), profile)
    [asked] = load("placement-exact")(space, seed=1).ask()
    called = {reason.service: reason.called for reason in reasons(space, asked.configuration, profile)}
    assert called == {"nginx": "url-shorten", "url-shorten": "url-shorten-memcached", "url-shorten-memcached": ""}
    stays = {reason.service: reason.stays for reason in reasons(space, asked.configuration, profile)}
    assert stays == {"nginx": False, "url-shorten": True, "url-shorten-memcached": False}
