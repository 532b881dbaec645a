"""The document of a stack: where a swarm has things, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework.compose.gate import CLOSED
from framework.errors import DeploymentFailed, InputError, MissingPrerequisite
from framework.model import Deployment, Hook
from framework.model.side_container import SideContainer
from framework.testbeds.docker.document import wanted
from framework.testbeds.swarm.agents import parsed
from framework.testbeds.swarm.fleet import discover
from framework.testbeds.swarm.hooks import side_container
from framework.testbeds.swarm.stack import LARGEST, Stack, stack_of, waves
from optimizer.space import Configuration


def stack(directory: Path, services: dict[str, Any], **sections: Any) -> Stack:
    document = {"services": services, **sections}
    deployment = Deployment("shop", "tailor-shop-1", Configuration({}), {"local": document}, {}, roots=(directory,))
    want = wanted(deployment, CLOSED.deployment(deployment, document, directory))
    return stack_of(want, "tailor-shop-1", directory, dict.fromkeys(services, "node1"))


def test_a_service_runs_on_its_node_without_a_virtual_address(tmp_path: Path) -> None:
    made = stack(tmp_path, {"web": {"image": "nginx:1.22", "restart": "always", "cpus": 1.5, "mem_limit": "64m"}})
    deploy = made.document["services"]["web"]["deploy"]
    assert deploy["placement"] == {"constraints": ["node.id == node1"]}
    assert deploy["endpoint_mode"] == "dnsrr"
    assert deploy["restart_policy"]["condition"] == "on-failure"
    assert deploy["resources"]["limits"] == {"cpus": "1.5", "memory": str(64 << 20)}


def test_a_service_that_nothing_restarts_is_not_started_again(tmp_path: Path) -> None:
    made = stack(tmp_path, {"web": {"image": "nginx:1.22"}})
    assert made.document["services"]["web"]["deploy"]["restart_policy"] == {"condition": "none"}


def test_mounted_files_become_configs_named_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("one")
    mount = {"type": "bind", "source": "./a.conf", "target": "/etc/a.conf", "read_only": True}
    first = stack(tmp_path, {"web": {"image": "nginx:1.22", "volumes": [mount]}})
    (tmp_path / "a.conf").write_text("two")
    second = stack(tmp_path, {"web": {"image": "nginx:1.22", "volumes": [mount]}})
    [config] = first.document["services"]["web"]["configs"]
    assert config["target"] == "/etc/a.conf"
    assert first.document["configs"].keys() != second.document["configs"].keys()


def test_a_large_file_is_refused_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (LARGEST + 1))
    mount = {"type": "bind", "source": "./big", "target": "/big", "read_only": True}
    with pytest.raises(DeploymentFailed, match=str(LARGEST + 1)):
        stack(tmp_path, {"web": {"image": "nginx:1.22", "volumes": [mount]}})


def test_waves_start_a_service_after_those_that_it_needs() -> None:
    needs = {"web": ("app",), "app": ("db", "cache")}
    assert waves(["web", "app", "db", "cache"], needs) == [("db", "cache"), ("app",), ("web",)]
    with pytest.raises(DeploymentFailed, match="wait for each other"):
        waves(["a", "b"], {"a": ("b",), "b": ("a",)})


def test_a_wave_has_its_own_files_only(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    mounts = {name: [{"type": "bind", "source": f"./{name}", "target": "/f", "read_only": True}] for name in ("a", "b")}
    made = stack(
        tmp_path,
        {
            "db": {"image": "postgres:15", "volumes": mounts["a"]},
            "web": {
                "image": "nginx:1.22",
                "volumes": mounts["b"],
                "depends_on": {"db": {"condition": "service_started"}},
            },
        },
    )
    assert [len(made.of_wave(number)["configs"]) for number in (0, 1)] == [1, 1]
    assert [list(made.of_wave(number)["services"]) for number in (0, 1)] == [["db"], ["web"]]
    assert made.of_wave(1)["networks"] == made.document["networks"]


def test_a_service_names_its_image_by_id_which_no_registry_is_asked_for(tmp_path: Path) -> None:
    made = stack(tmp_path, {"web": {"image": "nginx:1.22"}, "db": {"image": "postgres:15"}})
    pinned = made.of_images({"web": "sha256:11", "db": "sha256:22"})
    assert {name: body["image"] for name, body in pinned.document["services"].items()} == {
        "web": "sha256:11", "db": "sha256:22"
    }  # fmt: skip
    assert pinned.waves == made.waves
    assert made.document["services"]["web"]["image"] == "nginx:1.22"


def test_counters_of_a_machine_are_seconds() -> None:
    told = {"boot": "b", "stat": "cpu  100 50 50 9999 9 0 0 25 0 0",
            "pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000"}  # fmt: skip
    read = parsed(told)
    assert (read.busy_s, read.stolen_s, read.pressure_s) == (2.0, 0.25, 1.5)
    assert parsed({**told, "pressure": ""}).pressure_s is None


def test_a_swarm_without_engines_says_how_to_name_them() -> None:
    with pytest.raises(MissingPrerequisite, match="engines of the nodes") as raised:
        discover([])
    assert "TAILOR_SWARM" in raised.value.remedy


def hook_of(directory: Path, **body: Any) -> SideContainer:
    document = {"services": {"seed": {"image": "tailor/social-network:1", "profiles": ["tailor"], **body}}}
    deployment = Deployment("shop", "tailor-shop-1", Configuration({}), {"local": document}, {}, roots=(directory,))
    want = wanted(deployment, CLOSED.deployment(deployment, document, directory))
    return side_container(want, "tailor-shop-1", Hook("seed"))


def test_a_hook_has_its_whole_entry_point_its_command_and_its_networks(tmp_path: Path) -> None:
    made = hook_of(tmp_path, entrypoint=["/program", "-v"], command=["seed", "--all"], working_dir="/data",
                   environment={"A": "1"})  # fmt: skip
    assert (made.program, made.command, made.directory) == ("/program", ("-v", "seed", "--all"), "/data")
    assert made.environment == {"A": "1"}
    assert (made.network, made.also) == ("tailor-shop-1_default", ())


def test_a_hook_that_cannot_be_the_user_it_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="seed has user"):
        hook_of(tmp_path, user="1000")
