"""Placement over the hosts of a testbed that has several."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from framework.bootstrap.adapters import assembled, docker_kind
from framework.compose import render
from framework.compose.placed import on_host
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.settings import Settings
from framework.errors import DeploymentFailed, FieldError, InputError
from framework.model import Application, TuneRequest
from framework.model.topology import Cpu, Topology
from framework.placement.domains import Domains, domains_on, of_hosts
from framework.placement.profile import read_profile
from framework.placement.space import capacities, placement_alone, with_placement, with_rules
from framework.study.planning import space_of
from framework.testing.clock import VirtualClock
from framework.testing.pretend import MACHINE, PretendMachine
from optimizer.registry import load
from optimizer.space import Capacity, Configuration, SearchSpace
from tests.fakes import pretend_tailor
from tests.unit.test_placement_space import SMALL, profile_of

APP = Path(__file__).resolve().parents[2] / "apps" / "url-shortener"
SIZES = {"frontend": (2.0, 1e3), "logic": (4.0, 2e3), "backend": (4.0, 2e3), "monitoring": (1.0, 1e3), "spare": (9, 9)}
MOVABLE = ("nginx", "url-shorten", "url-shorten-memcached")


@pytest.fixture
def application() -> Application:
    return load_application(APP)


@pytest.fixture
def domains(application: Application) -> Domains:
    return of_hosts(application, SIZES)


def test_hosts_are_the_application_s_and_data_stay(application: Application, domains: Domains) -> None:
    assert domains.names == ("frontend", "logic", "backend", "monitoring"), "of other nodes nothing is asked"
    assert domains.stays == {"url-shorten-db": "backend"}, "it has a volume; mounted files go to any host"
    with pytest.raises(InputError, match="no node is host backend, monitoring; there are: frontend, logic"):
        of_hosts(application, {name: SIZES[name] for name in ("frontend", "logic")})


def test_a_service_that_can_move_has_its_host_as_a_parameter(application: Application, domains: Domains) -> None:
    alone = placement_alone(application, domains, None)
    assert alone.names == tuple(f"{name}.host" for name in MOVABLE)
    assert alone.default()["nginx.host"] == "frontend", "as application.yaml has it"
    assert alone["nginx.host"].choices == domains.names
    types = resolved(load_service_types(), cores=4, memory_mib=8192)
    whole = space_of(application, TuneRequest(APP, placement="none"), types, MACHINE, lambda asked, with_links: domains)
    both = with_placement(whole, domains, None)
    assert [name for name in both.names if name not in whole] == [f"{name}.host" for name in MOVABLE]


def test_what_stays_takes_its_part_of_its_host(application: Application, domains: Domains, tmp_path: Path) -> None:
    path = profile_of(dict.fromkeys((*MOVABLE, "url-shorten-db"), (1.0, 1.5)), tmp_path / "profile.jsonl")
    profile = read_profile(path.read_text(), "p")
    about = replace(profile.about, memory_mib={"nginx": 10.0, "url-shorten-db": 500.0})
    limits = capacities(MOVABLE, domains, replace(profile, about=about))
    bounds = {(limit.name, limit.place): limit.bound for limit in limits if isinstance(limit, Capacity)}
    assert bounds["peak CPU need", "backend"] == pytest.approx(3.0)
    assert bounds["peak CPU need", "logic"] == 4.0
    assert bounds["memory in MiB", "backend"] == 1500.0


@pytest.mark.parametrize("solver", ["placement-exact", "placement-cpsat", "placement-spread", "knapsack"])
def test_solvers_choose_hosts_that_reach(
    application: Application, domains: Domains, solver: str, tmp_path: Path
) -> None:
    path = profile_of(dict.fromkeys((*MOVABLE, "url-shorten-db"), (1.0, 1.5)), tmp_path / "profile.jsonl")
    profile = read_profile(path.read_text(), "p")
    space = with_rules(placement_alone(application, domains, profile), domains, ["nginx=logic"], [])
    [asked] = load(solver)(space, seed=1).ask()
    assert space.is_feasible(asked.configuration)
    if solver != "knapsack":  # the thesis's knows no pins
        assert asked.configuration["nginx.host"] == "logic"
    assert set(asked.configuration.values()) <= set(domains.names)


def test_a_testbed_places_on_what_it_has(application: Application) -> None:
    one = docker_kind(Settings.from_environment({"TAILOR_HOME": "/nowhere"}))
    one = replace(one, topology=lambda application: Topology(tuple(Cpu(n, n, 0, 0) for n in range(4))))
    several = replace(one, name="swarm", hosts=lambda application: SIZES)
    assert domains_on(one, application, "auto").names == ("0-1", "2-3")
    assert domains_on(several, application, "auto") == domains_on(several, application, "hosts")
    with pytest.raises(FieldError, match="several hosts, such as swarm"):
        domains_on(one, application, "hosts")
    with pytest.raises(FieldError, match="allowed: hosts"):
        domains_on(several, application, "0-1/2-3")


def test_a_testbed_of_one_host_refuses_a_placement_on_several(application: Application, tmp_path: Path) -> None:
    types = resolved(load_service_types(), cores=4, memory_mib=8192)
    deployment = render(application, types, Configuration({"nginx.host": "logic"}), project="tailor-x", labels={})
    assert deployment.hosts == {"nginx": "logic"}
    kind = docker_kind(Settings.from_environment({"TAILOR_HOME": str(tmp_path)}))
    with pytest.raises(DeploymentFailed, match="one host; found nginx on others"):
        kind.open(application, types).testbed.deploy(deployment, lambda step: None)


def test_a_space_of_hosts_is_kept_as_it_is(application: Application, domains: Domains) -> None:
    space = placement_alone(application, domains, None)
    assert SearchSpace.from_dict(space.to_dict()).names == space.names


def test_the_application_s_own_placement_always_fits(
    application: Application, domains: Domains, tmp_path: Path
) -> None:
    path = profile_of(dict.fromkeys((*MOVABLE, "url-shorten-db"), (9.0, 1.5)), tmp_path / "profile.jsonl")
    profile = read_profile(path.read_text(), "p")
    space = placement_alone(application, domains, profile)
    assert space.is_feasible(space.default()), "it runs so today, whatever the profile says of it"
    assert capacities((), domains, profile) == []
    assert placement_alone(application, domains, profile, ["nginx", "url-shorten-db"]).names == ("nginx.host",)
    with pytest.raises(InputError, match="has a volume"):
        placement_alone(application, domains, profile, ["url-shorten-db"])


def test_the_best_placement_is_deployed_by_the_files_of_a_study(tmp_path: Path) -> None:
    directory = tmp_path / "small"
    shutil.copytree(SMALL, directory)
    text = (directory / "application.yaml").read_text()
    (directory / "application.yaml").write_text(f"{text}hosts: [left, right]\n")
    machine = PretendMachine(VirtualClock(), lambda values: 5.0 if values.get("cache.host") == "right" else 10.0)
    plain, database = pretend_tailor(tmp_path, machine)
    [kind] = plain.backends.kinds
    several = replace(kind, hosts=lambda application: {"left": (2.0, 1e3), "right": (2.0, 1e3)})
    tailor = assembled(replace(plain.backends, kinds=[several]), database)
    request = TuneRequest(
        directory, rate_rps=100.0, iterations=6, repetitions=1, pairs=6, drift_every=0, minimal=0, placement="only",
        optimizer="random",
    )  # fmt: skip
    done = tailor.studies.run(tailor.studies.create(request).id, lambda event: None)
    assert done.verdict is not None
    assert done.verdict.statement == "improvement"
    tailor.results.export_best(done.id, tmp_path / "best")
    services = YAML(typ="safe").load((tmp_path / "best" / "compose.yaml").read_text())["services"]
    assert services["cache"]["deploy"]["placement"]["constraints"] == ["node.labels.tailor.host == right"]
    changes = [(c.service, c.parameter, c.default, c.value) for c in tailor.results.summary(done).changes]
    assert ("cache", "host", "left", "right") in changes
    tailor.close()


def test_a_constraint_is_added_to_those_that_the_file_has() -> None:
    given = {"replicas": 2, "placement": {"constraints": ["node.role == worker"], "max_replicas_per_node": 1}}
    assert on_host(given, "logic") == {
        "replicas": 2,
        "placement": {
            "constraints": ["node.role == worker", "node.labels.tailor.host == logic"], "max_replicas_per_node": 1,
        },
    }  # fmt: skip
    assert given["placement"] == {"constraints": ["node.role == worker"], "max_replicas_per_node": 1}
