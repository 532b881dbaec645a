"""Placement as part of a study: the space, what is rendered, and the study itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framework.bootstrap.adapters import Opened
from framework.compose import render
from framework.compose.placed import ALL
from framework.config.application import load_application
from framework.errors import InputError, UnknownName
from framework.model import TuneRequest
from framework.model.topology import Cpu, Topology
from framework.placement.domains import cpu_sets, domains_of, own_memory_mib
from framework.placement.profile import Profile, ProfileHeader, ProfileWindow, StressorProbe, read_profile
from framework.placement.reasons import reasons
from framework.placement.space import baselines, capacities, load_profile, parameter_of
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from optimizer.errors import SearchExhausted
from optimizer.registry import load
from optimizer.space import Capacity, Configuration, SearchSpace
from tests.fakes import pretend_tailor

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"
REQUEST = TuneRequest(SMALL, rate_rps=100.0, iterations=4, repetitions=1, pairs=3, drift_every=0, minimal=0)
EIGHT = Topology(tuple(Cpu(number, number % 4, 0, 0) for number in range(8)))


@pytest.fixture
def tailor(tmp_path: Path) -> Iterator[Opened]:
    machine = PretendMachine(VirtualClock(), lambda configuration: 10.0, noise=0.01)
    tailor, _ = pretend_tailor(tmp_path, machine)
    yield tailor
    tailor.close()


def test_domains_are_a_number_or_sets() -> None:
    assert domains_of("2", EIGHT) == ("0-1,4-5", "2-3,6-7"), "whole cores"
    assert domains_of("0-2/5", EIGHT) == ("0-2", "5")
    for wrong in ("0-3/3-4", "0-3/", "0-3/9", "x", "0", "9"):
        with pytest.raises(InputError):
            domains_of(wrong, EIGHT)


def test_the_space_has_the_placement_of_what_is_tuned(tailor: Opened) -> None:
    application = load_application(SMALL)
    plain = tailor.catalogue.space(application)
    both = tailor.catalogue.space(application, replace(REQUEST, placement="also", domains="0-3/4-7"))
    added = [name for name in both.names if name not in plain]
    assert added == [f"{service}.cpuset" for service in plain.groups]
    assert both[added[0]].choices == (ALL, "0-3", "4-7")
    assert both.default()[added[0]] == ALL
    alone = tailor.catalogue.space(application, replace(REQUEST, placement="only"))
    assert all(name.endswith(".cpuset") for name in alone.names)
    [first, *_] = plain.groups
    assert tailor.catalogue.space(application, replace(REQUEST, placement="only", only=(first,))).names == (
        f"{first}.cpuset",
    )
    with pytest.raises(UnknownName, match="nobody"):
        tailor.catalogue.space(application, replace(REQUEST, placement="only", only=("nobody",)))
    with pytest.raises(UnknownName, match="everywhere"):
        tailor.catalogue.space(application, replace(REQUEST, placement="everywhere"))


def test_a_cpu_set_is_rendered_and_read_back(tailor: Opened) -> None:
    application = load_application(SMALL)
    [first, *_] = tailor.catalogue.space(application).groups
    types = tailor.catalogue.service_types()
    pinned = render(application, types, Configuration({f"{first}.cpuset": "0-3"}), project="p", labels={})
    [document] = pinned.documents.values()
    assert document["services"][first]["cpuset"] == "0-3"
    expected = [expectation for expectation in pinned.expectations if expectation.parameter == "cpuset"]
    assert [(expectation.service, expectation.value) for expectation in expected] == [(first, "0-3")]
    everywhere = render(application, types, Configuration({f"{first}.cpuset": ALL}), project="p", labels={})
    [document] = everywhere.documents.values()
    assert "cpuset" not in document["services"][first]


@pytest.mark.parametrize("optimizer", ["random", "tailor", "dds"])
def test_any_optimizer_tunes_placement_with_the_configuration(tailor: Opened, optimizer: str) -> None:
    request = replace(REQUEST, optimizer=optimizer, placement="also", domains="0-3/4-7", iterations=12)
    study = tailor.studies.create(request)
    tailor.studies.run(study.id, lambda event: None)
    tried = [trial.configuration for trial in tailor.store.trials(study.id) if trial.purpose == "search"]
    assert len(tried) == 12
    sets = {str(value) for configuration in tried for name, value in configuration.items() if name.endswith(".cpuset")}
    assert len(sets & {"0-3", "4-7"}) > 0


def test_a_solver_of_placements_is_measured_against_everything_everywhere(tailor: Opened) -> None:
    study = tailor.studies.create(replace(REQUEST, optimizer="placement-spread", placement="only", domains="0-3/4-7"))
    done = tailor.studies.run(study.id, lambda event: None)
    trials = tailor.store.trials(study.id)
    [suggested] = [trial.configuration for trial in trials if trial.purpose == "search"]
    assert set(suggested.values()) <= {"0-3", "4-7"}
    assert set(next(trial.configuration for trial in trials if trial.purpose == "default").values()) == {ALL}
    assert done.state == "completed"


ABOUT = ProfileHeader("small", "0", {}, "0-3", "4-7", 100.0, 1.0, 5.0, 1, {})


def profile_of(services: dict[str, tuple[float, float]], path: Path) -> Path:
    """A profile in which each service has a peak need, and slows down by a factor beside one unit of l3."""
    peaks = {name: peak for name, (peak, _) in services.items()}
    windows = []
    for name, (_, factor) in services.items():
        for position, (kind, ms) in enumerate([("", 10.0), ("l3", 10.0 * factor), ("l3", 10.0 * factor), ("", 10.0)]):
            threads, stress = (1, 80.0) if kind else (0, 0.0)
            windows.append(
                ProfileWindow(
                    name, kind, threads, float(threads), 0, position, 99, ms, ms, ms, ms, 90.0, 0.5, 0.0, 9.0, stress
                )
            )
    probes = (StressorProbe("l3", 0.0, 100.0), StressorProbe("l3", 1.0, 60.0))
    path.write_text(Profile(replace(ABOUT, peaks=peaks), tuple(windows), probes).to_lines())
    return path


def test_a_profile_says_what_services_need_suffer_and_inflict(tailor: Opened, tmp_path: Path) -> None:
    names = [service.name for service in load_application(SMALL).services if service.tuned]
    path = profile_of(dict.fromkeys(names, (6.0, 1.5)), tmp_path / "profile.jsonl")
    asked = replace(REQUEST, placement="only", domains="0-3/4-7", profile=path)
    space = tailor.catalogue.space(load_application(SMALL), asked)
    attributes = space[f"{names[0]}.cpuset"].attributes
    assert attributes["sensitivity.l3"] == pytest.approx(0.405, abs=1e-3), "log 1.5"
    assert attributes["pressure.l3"] == pytest.approx(0.5), "it takes half as much from the probe as one of its kind"
    assert attributes["score"] == pytest.approx(0.5)
    limits = [constraint for constraint in space.constraints if isinstance(constraint, Capacity)]
    assert [limit.bound for limit in limits] == [4.0, 4.0]
    assert sum(limits[0].weights.values()) == pytest.approx(min(6.0 * len(names), 0.85 * 8))
    assert (
        capacities(names, cpu_sets(("0-3", "4-7"), {"0-3": 99.0}), load_profile(path, load_application(SMALL)))
        == limits
    ), "a profile that says nothing of memory"
    elsewhere = profile_of({"x": (1.0, 1.1)}, tmp_path / "other.jsonl")
    elsewhere.write_text(elsewhere.read_text().replace('"application": "small"', '"application": "large"'))
    for wrong, said in (
        (replace(asked, placement="none"), "with placement also or only"),
        (replace(asked, profile=elsewhere), "is of large"),
        (replace(asked, profile=tmp_path / "none.jsonl"), "no such file"),
    ):
        with pytest.raises(InputError, match=said):
            tailor.catalogue.space(load_application(SMALL), wrong)


def test_memory_is_a_capacity_where_domains_have_their_own() -> None:
    profile = Profile(replace(ABOUT, peaks={"a": 1.0, "b": 1.0}, memory_mib={"a": 700.0, "b": 600.0}), (), ())
    cpus = tuple(Cpu(number, number, number // 4, number // 4) for number in range(8))
    two, domains = Topology(cpus, memory_mib={0: 1e3, 1: 5e2}), ("0-3", "4-7")
    memory_mib = own_memory_mib(domains, two)
    assert memory_mib == {"0-3": 1e3, "4-7": 5e2}
    assert own_memory_mib(("0-1", "2-3"), two) == {}, "of one node"
    space = SearchSpace(
        [parameter_of(name, cpu_sets(domains)) for name in ("a", "b")],
        capacities(("a", "b"), cpu_sets(domains, memory_mib), profile),
    )
    assert space.is_feasible(Configuration({"a.cpuset": "0-3", "b.cpuset": ALL}))
    assert not space.is_feasible(Configuration({"a.cpuset": "0-3", "b.cpuset": "0-3"}))
    assert not space.is_feasible(Configuration({"a.cpuset": "0-3", "b.cpuset": "4-7"})), "600 of 500 MiB"
    with pytest.raises(SearchExhausted):
        load("placement-exact")(space, seed=1).ask()


def test_baselines_fit_and_differ(tailor: Opened, tmp_path: Path) -> None:
    space = SearchSpace(
        [parameter_of(f"s{number}", cpu_sets(("0-3", "4-7"))) for number in range(4)],
        [Capacity({f"s{number}.cpuset": 1.9 for number in range(4)}, place, 4.0) for place in ("0-3", "4-7")],
    )
    placements = baselines(space, 1)
    assert set(placements) == {"spread", "random-1", "random-2"}
    assert len(set(placements.values())) == 3
    assert all(space.is_feasible(placement) and ALL not in placement.values() for placement in placements.values())
    full = SearchSpace(space.parameters, [Capacity({"s0.cpuset": 9.0}, place, 4.0) for place in ("0-3", "4-7")])
    assert baselines(full, 1) == {}


def test_reasons_can_be_checked_against_the_profile(tmp_path: Path) -> None:
    path = profile_of({"quiet": (0.5, 1.01), "loud": (0.5, 1.01), "tender": (0.5, 2.0)}, tmp_path / "profile.jsonl")
    profile = read_profile(path.read_text(), "p")
    space = SearchSpace([parameter_of(name, cpu_sets(("0-3", "4-7"))) for name in ("quiet", "loud", "tender")])
    at = Configuration({"quiet.cpuset": "0-3", "loud.cpuset": "0-3", "tender.cpuset": "4-7"})
    by = {reason.service: reason for reason in reasons(space, at, profile)}
    assert by["tender"].harm_shared == pytest.approx(math.log(2.0)), "half a unit from each of the two"
    assert by["tender"].harm_placed == 0.0
    assert by["tender"].separated
    assert not by["quiet"].separated or by["quiet"].worst == "tender"
    assert by["quiet"].resource == "l3"


def test_solvers_keep_to_pins_and_separations(tailor: Opened, tmp_path: Path) -> None:
    first, second = [service.name for service in load_application(SMALL).services if service.tuned][:2]
    path = profile_of(dict.fromkeys((first, second), (1.0, 1.5)), tmp_path / "profile.jsonl")
    asked = replace(REQUEST, optimizer="placement-exact", placement="only", domains="0-3/4-7", profile=path)
    for wish, expected in (
        ({"pin": (f"{first}=4-7", f"{second}=4-7")}, {first: "4-7", second: "4-7"}),
        ({"pin": (f"{second}=0-3",), "apart": (f"{first}:{second}",)}, {first: "4-7", second: "0-3"}),
    ):
        for name in ("placement-exact", "placement-cpsat"):
            space = tailor.catalogue.space(load_application(SMALL), replace(asked, **wish))
            [suggestion] = load(name)(space, seed=1).ask()
            assert suggestion.configuration.to_dict() == {f"{key}.cpuset": at for key, at in expected.items()}
    for wrong, said in (
        ({"pin": ("nothing=0-3",)}, "unknown service 'nothing'"),
        ({"pin": (f"{first}=0",)}, "unknown domain '0'; known: 0-3, 4-7"),
        ({"pin": (first,)}, "pin: found"),
        ({"apart": (f"{first}:",)}, "apart: found"),
        ({"apart": (f"{first}:{second}",), "placement": "none", "profile": None}, "pin and apart say"),
    ):
        with pytest.raises(InputError, match=said):
            tailor.catalogue.space(load_application(SMALL), replace(asked, **wrong))


def test_chatty_services_are_drawn_together_by_the_profile(tailor: Opened, tmp_path: Path) -> None:
    first, second = [service.name for service in load_application(SMALL).services if service.tuned][:2]
    path = profile_of(dict.fromkeys((first, second), (1.0, 1.5)), tmp_path / "profile.jsonl")
    profile = read_profile(path.read_text(), "p")
    path.write_text(replace(profile, about=replace(profile.about, calls={first: {second: 3.0}})).to_lines())
    asked = replace(REQUEST, placement="only", domains="0-3/4-7", profile=path)
    space = tailor.catalogue.space(load_application(SMALL), asked)
    assert space[f"{first}.cpuset"].attributes[f"calls.{second}"] == 3.0
    [apart] = load("placement-cpsat")(space, seed=1).ask()
    [together] = load("placement-cpsat")(space, seed=1, call_cost=10.0).ask()
    assert len(set(apart.configuration.values())) == 2, "they harm each other"
    assert len(set(together.configuration.values())) == 1


@pytest.mark.parametrize(
    "name", ["knapsack", "placement-exact", "placement-cpsat", "placement-spread", "placement-latency"]
)
def test_every_solver_keeps_to_the_domains_of_a_study(tailor: Opened, tmp_path: Path, name: str) -> None:
    names = [service.name for service in load_application(SMALL).services if service.tuned]
    path = profile_of(
        {service: (1.0 + number, 1.5) for number, service in enumerate(names)}, tmp_path / "profile.jsonl"
    )
    asked = replace(REQUEST, placement="only", domains="0-3/4-7", profile=path)
    space = tailor.catalogue.space(load_application(SMALL), asked)
    [suggestion] = load(name)(space, seed=1).ask()
    assert set(suggestion.configuration.values()) <= {"0-3", "4-7"}
    assert space.is_feasible(suggestion.configuration)
