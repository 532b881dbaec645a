"""Keys of a compose file: those not listed are refused by name, and those listed stay inside their containers."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framework.compose.allow_list import PLAIN, RULES
from framework.compose.gate import Gate
from framework.compose.interpolation import Variables
from framework.compose.safety import Admitted, admit
from framework.config.application import load_application
from framework.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
SECRET = "postgresql://tailor:secret@db/tailor"
HERE = Variables.of({"TAILOR_DATABASE": SECRET, "HOME": "/root", "TAG": "7", "PASSED": "yes"}, ["PASSED"])


def admitted(compose: Mapping[str, Any], directory: Path, *allowed: str) -> Admitted:
    return admit(compose, application="shop", base=directory, roots=[directory], allowed=allowed, variables=HERE)


def service(directory: Path, *allowed: str, **keys: Any) -> tuple[list[str], Mapping[str, Any], Admitted]:
    """Admit a service ``a`` next to a ``b``; return the refused places, ``a`` as it would run, and the whole answer."""
    document = {"services": {"a": {"image": "x", **keys}, "b": {"image": "x"}}, "volumes": {"data": None}}
    answer = admitted(document, directory, *allowed)
    return [refusal.place for refusal in answer.refused], answer.document["services"]["a"], answer


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"privileged": True}, "services.a.privileged"),
    ({"privileged": "true"}, "services.a.privileged"),
    ({"privileged": "${X:-true}"}, "services.a.privileged"),
    ({"network_mode": "host"}, "services.a.network_mode: host"),
    ({"network_mode": "${X:-host}"}, "services.a.network_mode: host"),
    ({"network_mode": "bridge"}, "services.a.network_mode: bridge"),
    ({"network_mode": "container:other"}, "services.a.network_mode: container:other"),
    ({"network_mode": "service:stranger"}, "services.a.network_mode: service:stranger"),
    ({"pid": "host"}, "services.a.pid: host"),
    ({"pid": "${X:-host}"}, "services.a.pid: host"),
    ({"ipc": "host"}, "services.a.ipc: host"),
    ({"uts": "host"}, "services.a.uts"),
    ({"userns_mode": "host"}, "services.a.userns_mode"),
    ({"cgroup": "host"}, "services.a.cgroup: host"),
    ({"cgroup_parent": "/"}, "services.a.cgroup_parent"),
    ({"devices": ["/dev/sda:/dev/sda"]}, "services.a.devices"),
    ({"device_cgroup_rules": ["a *:* rwm"]}, "services.a.device_cgroup_rules"),
    ({"gpus": "all"}, "services.a.gpus"),
    ({"runtime": "other"}, "services.a.runtime"),
    ({"provider": {"type": "command"}}, "services.a.provider"),
    ({"use_api_socket": True}, "services.a.use_api_socket"),
    ({"credential_spec": {"file": "x"}}, "services.a.credential_spec"),
    ({"oom_kill_disable": True}, "services.a.oom_kill_disable"),
    ({"oom_score_adj": -1000}, "services.a.oom_score_adj"),
    ({"storage_opt": {"size": "1G"}}, "services.a.storage_opt"),
    ({"blkio_config": {"device_read_bps": [{"path": "/dev/sda", "rate": 1}]}}, "services.a.blkio_config"),
    ({"cap_add": ["SYS_ADMIN"]}, "services.a.cap_add: SYS_ADMIN"),
    ({"cap_add": ["ALL"]}, "services.a.cap_add: ALL"),
    ({"security_opt": ["seccomp:unconfined"]}, "services.a.security_opt: seccomp:unconfined"),
    ({"sysctls": {"kernel.core_pattern": "|/x"}}, "services.a.sysctls: kernel.core_pattern=|/x"),
    ({"extra_hosts": ["x:host-gateway"]}, "services.a.extra_hosts: x:host-gateway"),
    ({"external_links": ["other"]}, "services.a.external_links"),
    ({"links": ["stranger"]}, "services.a.links: stranger"),
    ({"volumes_from": ["container:other"]}, "services.a.volumes_from: container:other"),
    ({"extends": {"service": "b"}}, "services.a.extends"),
    ({"label_file": "/etc/passwd"}, "services.a.label_file"),
    ({"env_file": "/etc/passwd"}, "services.a.env_file: /etc/passwd"),
    ({"env_file": [{"path": "../up", "required": False}]}, "services.a.env_file: ../up"),
    ({"post_start": [{"command": "x", "privileged": True}]}, "services.a.post_start"),
    ({"pre_stop": [{"command": "x"}]}, "services.a.pre_stop"),
    ({"logging": {"driver": "syslog", "options": {}}}, "services.a.logging.driver: syslog"),
    ({"logging": {"options": {"syslog-address": "unix:///dev/log"}}}, "services.a.logging.options.syslog-address"),
    ({"ports": ["0.0.0.0:80:80"]}, "services.a.ports: 0.0.0.0"),
    ({"ports": ["[::]:80:80"]}, "services.a.ports: ::"),
    ({"ports": [{"target": 80, "host_ip": "192.168.0.7"}]}, "services.a.ports: 192.168.0.7"),
    (
        {"deploy": {"resources": {"reservations": {"devices": [{}]}}}},
        "services.a.deploy.resources.reservations.devices",
    ),
    ({"networks": ["stranger"]}, "services.a.networks.stranger"),
    ({"networks": {"default": {"driver_opts": {"x": "y"}}}}, "services.a.networks.default.driver_opts"),
    ({"configs": ["stranger"]}, "services.a.configs: stranger"),
    ({"secrets": [{"source": "stranger"}]}, "services.a.secrets: {'source': 'stranger'}"),
    ({"volumes": ["/:/host"]}, "services.a.volumes: /"),
    ({"volumes": ["/:/host:ro"]}, "services.a.volumes: /"),
    ({"volumes": [" /etc:/host"]}, "services.a.volumes:  /etc"),
    ({"volumes": ["../../etc:/etc"]}, "services.a.volumes: ../../etc"),
    ({"volumes": ["./x/../../y:/y"]}, "services.a.volumes: ./x/../../y"),
    ({"volumes": ["${HOME}:/home"]}, "services.a.volumes"),
    ({"volumes": ["${X:-/etc}:/e"]}, "services.a.volumes: /etc"),
    ({"volumes": ["~/.ssh:/ssh"]}, "services.a.volumes: ~/.ssh"),
    ({"volumes": [{"type": "bind", "source": "/etc", "target": "/etc"}]}, "services.a.volumes: /etc"),
    ({"volumes": [{"type": "${T:-bind}", "source": "/etc", "target": "/e"}]}, "services.a.volumes: /etc"),
    ({"volumes": [{"type": "volume", "source": "/etc", "target": "/e"}]}, "services.a.volumes: /etc"),
    ({"volumes": [{"type": "npipe", "source": "x", "target": "/e"}]}, "services.a.volumes: x"),
    ({"volumes": [{"type": "image", "source": "x", "target": "/e"}]}, "services.a.volumes: x"),
    ({"volumes": ["data:/d:rshared"]}, "services.a.volumes: data"),
    ({"volumes": ["/var/run/docker.sock:/s"]}, "services.a.volumes: /var/run/docker.sock"),
    ({"volumes": ["undeclared:/d"]}, "services.a.volumes: undeclared"),
    ({"tmpfs": ["/x:dev,suid"]}, "services.a.tmpfs: /x:dev,suid"),
    ({"environment": ["TAILOR_DATABASE"]}, "services.a.environment.TAILOR_DATABASE"),
    ({"environment": {"X": "${TAILOR_DATABASE}"}}, "services.a.environment.X"),
    ({"environment": {"HOME": None}}, "services.a.environment.HOME"),
    ({"command": ["echo", "$HOME"]}, "services.a.command"),
    ({"something_new": "x"}, "services.a.something_new"),
]


@pytest.mark.parametrize(("keys", "says"), REFUSED)
def test_what_is_not_on_the_list(tmp_path: Path, keys: dict[str, Any], says: str) -> None:
    refused, _, answer = service(tmp_path, **keys)
    assert refused == [says]
    text = str(answer.refused[0])
    assert SECRET not in text
    assert "(" in text, "it says why, and what to do"


TOP_LEVEL: list[tuple[dict[str, Any], str]] = [
    ({"volumes": {"v": {"driver_opts": {"type": "none", "o": "bind", "device": "/"}}}}, "volumes.v.driver_opts"),
    ({"volumes": {"v": {"driver": "rexray"}}}, "volumes.v.driver"),
    ({"volumes": {"v": {"external": True, "name": "tailor_database"}}}, "volumes.v.external"),
    ({"volumes": {"v": {"external": "true"}}}, "volumes.v.external"),
    ({"volumes": {"v": {"external": {"name": "other"}}}}, "volumes.v.external"),
    ({"networks": {"h": {"external": True, "name": "host"}}}, "networks.h.external"),
    ({"networks": {"h": {"driver": "host"}}}, "networks.h.driver"),
    ({"networks": {"h": {"driver": "macvlan", "driver_opts": {"parent": "eth0"}}}}, "networks.h.driver"),
    ({"networks": {"h": {"driver_opts": {"com.docker.network.bridge.name": "docker0"}}}}, "networks.h.driver_opts"),
    ({"secrets": {"s": {"file": "/etc/shadow"}}}, "secrets.s.file: /etc/shadow"),
    ({"secrets": {"s": {"environment": "TAILOR_DATABASE"}}}, "secrets.s.environment"),
    ({"secrets": {"s": {"external": True}}}, "secrets.s.external"),
    ({"configs": {"c": {"content": "${TAILOR_DATABASE}"}}}, "configs.c.content"),
    ({"configs": {"c": {"environment": "HOME"}}}, "configs.c.environment"),
    ({"include": ["/etc/passwd"]}, "include"),
    ({"models": {"m": {"model": "x"}}}, "models"),
]


@pytest.mark.parametrize(("compose", "says"), TOP_LEVEL)
def test_what_is_not_on_the_list_outside_of_services(tmp_path: Path, compose: dict[str, Any], says: str) -> None:
    answer = admitted({"services": {"a": {"image": "x"}}, **compose}, tmp_path)
    assert says in [refusal.place for refusal in answer.refused]


@pytest.mark.parametrize("keys", [keys for keys, says in REFUSED if "compose" not in says][:20])
def test_what_the_operator_allows_is_handed_on(tmp_path: Path, keys: dict[str, Any]) -> None:
    [place], _, _ = service(tmp_path, **keys)
    assert service(tmp_path, f"other:{place}", **keys)[0] == [place], "of another application"
    refused, kept, _ = service(tmp_path, f"shop:{place}", **keys)
    assert refused == []
    [key] = keys
    assert kept[key]


def test_every_refusal_says_how_it_is_allowed(tmp_path: Path) -> None:
    _, _, answer = service(tmp_path, pid="host")
    assert "TAILOR_ALLOW='shop:services.a.pid: host'" in str(answer.refused[0])
    _, _, answer = service(tmp_path, image="x:${TAG}")
    assert "TAILOR_VARIABLES=TAG" in str(answer.refused[0])


def test_variables(tmp_path: Path) -> None:
    _, kept, answer = service(tmp_path, image="x:${TAG:-1}", environment=["PASSED", "GONE", "A=$$HOME", "B=${PASSED}"])
    assert answer.refused == ()
    assert kept["image"] == "x:1", "what is not passed on has its default"
    assert kept["environment"] == {"PASSED": "yes", "A": "$HOME", "B": "yes"}
    assert any("TAG" in text for text in answer.left_out), "and that is said"


def test_what_a_study_goes_without_is_said_once(tmp_path: Path) -> None:
    _, kept, answer = service(
        tmp_path,
        container_name="shop-db",
        ports=["8080:80", "127.0.0.1:9:9", {"target": 7, "published": 7}],
        labels=["traefik.enable=true", "tailor.type=nginx", "com.docker.compose.project=other"],
        mac_address="02:42:ac:11:00:02",
        restart="always",
        build={"context": "/"},
        pull_policy="always",
    )
    assert answer.refused == ()
    assert kept == {"image": "x", "labels": {"tailor.type": "nginx"}, "restart": "on-failure"}
    assert [text.split(" of ")[0] for text in answer.left_out] == [
        "container names", "ports", "labels", "fixed addresses",
    ]  # fmt: skip
    named = {"volumes": {"v": {"name": "production_data", "labels": {"a": "b"}}}, "networks": {"n": {"name": "prod"}}}
    answer = admitted({"services": {}, **named}, tmp_path)
    assert answer.document == {"services": {}, "volumes": {"v": {}}, "networks": {"n": {}}}
    assert any("the network n, the volume v" in text for text in answer.left_out)


def test_a_name_that_compose_gives_by_itself_is_not_worth_a_note(tmp_path: Path) -> None:
    names = {"volumes": {"v": {"name": "shop_v"}}, "networks": {"default": {"name": "shop_default"}}}
    assert admitted({"name": "shop", "services": {}, **names}, tmp_path).notes == ()
    assert len(admitted({"name": "other", "services": {}, **names}, tmp_path).notes) == 1


def test_mounts_are_read_only_or_copies(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "conf").write_text("x")
    (tmp_path / "link").symlink_to("/etc")
    mounts = ["./conf:/c:ro", "./conf:/w", "./data:/d", "./new:/n", "data:/v:ro", "/anonymous", "/etc/localtime:/t:ro"]
    refused, kept, answer = service(tmp_path, volumes=mounts)
    assert refused == []
    [file] = answer.files
    copied = [key for key in answer.document["volumes"] if key.startswith("copies-")]
    assert answer.files[file] == tmp_path / "conf"
    assert [answer.data.get(key) and answer.data[key].path for key in copied] == [f"{tmp_path}/data", None]
    plain = {"nocopy": True}
    assert kept["volumes"] == [
        {"type": "bind", "source": f"{tmp_path}/conf", "target": "/c", "read_only": True},
        {"type": "bind", "source": f"./{file}", "target": "/w"},
        {"type": "volume", "source": copied[0], "target": "/d", "volume": plain},
        {"type": "volume", "source": copied[1], "target": "/n", "volume": plain},
        {"type": "volume", "source": "data", "target": "/v", "read_only": True},
        {"type": "volume", "target": "/anonymous"},
        {"type": "bind", "source": "/etc/localtime", "target": "/t", "read_only": True},
    ]
    assert not (tmp_path / "new").exists()
    assert service(tmp_path, volumes=["./link:/etc:ro"])[0] == ["services.a.volumes: ./link"]
    assert service(tmp_path, volumes=["./gone:/etc:ro"])[0] == ["services.a.volumes: ./gone"]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        assert service(tmp_path, volumes=["./socket:/s"])[0] == ["services.a.volumes: ./socket"]
    refused, kept, answer = service(tmp_path, "shop:services.a.volumes: /etc", volumes=["/etc:/e"])
    assert (refused, answer.data[kept["volumes"][0]["source"]].path) == ([], "/etc"), "allowed, it is still a copy"


def test_outside_volumes_and_networks_that_are_allowed(tmp_path: Path) -> None:
    compose = {
        "services": {"a": {"image": "x", "volumes": ["v:/d"], "networks": ["n"]}},
        "volumes": {"v": {"external": True, "name": "production_data"}},
        "networks": {"n": {"external": True, "name": "production"}},
    }
    answer = admitted(compose, tmp_path, "shop:volumes.v.external", "shop:networks.n.external")
    assert answer.refused == ()
    assert answer.data["v"].volume == "production_data"
    assert answer.document["volumes"] == {"v": {}}, "the study's own, which begins as a copy"
    assert answer.document["networks"] == {"n": {}}, "the study's own: there, its services would answer for the user's"
    assert any("networks outside" in text for text in answer.left_out)


@pytest.mark.parametrize("name", ["social-network", "url-shortener", "hotel-reservation", "search"])
def test_our_applications_may_be_launched(name: str) -> None:
    answer = Gate().application(load_application(ROOT / "apps" / name))
    assert [text for text in answer.left_out if not text.startswith("ports")] == []
    assert (answer.data, answer.files) == ({}, {})


def test_the_gate_names_everything_that_was_refused(tmp_path: Path) -> None:
    application = load_application(ROOT / "apps" / "url-shortener")
    compose = {**application.compose, "volumes": {"v": {"external": True}}, "networks": {"h": {"driver": "host"}}}
    changed = load_application(ROOT / "apps" / "url-shortener")
    object.__setattr__(changed, "compose", compose)
    with pytest.raises(InputError, match=r"(?s)volumes\.v\.external.*") as raised:
        Gate().application(changed)
    assert "networks.h.driver" in str(raised.value)


# ------------------------------------------------------------------ whatever a document says

HOSTILE = ["host", "/", "/etc", "/var/run/docker.sock", "${TAILOR_DATABASE}", "${HOME}", "$HOME", "${X:-host}",
           "${X:-/etc}", "container:x", "service:b", "~", "../..", "./data", "data:/d", "/etc:/e", " /etc:/e",
           "./data:/d", "0.0.0.0:1:1", "8080:80", "true", "SYS_ADMIN", "x", "", "a=b", "TAILOR_DATABASE",
           "HOME=1"]  # fmt: skip
KEYS = st.sampled_from(
    ["type", "source", "target", "driver", "driver_opts", "external", "name", "file", "environment", "content", "path",
     "host_ip", "published", "resources", "reservations", "devices", "options", "aliases", "read_only", "bind",
     "propagation", "volume", "subpath", "x-a"]
)  # fmt: skip
text = st.sampled_from(HOSTILE)
scalars = st.one_of(text, st.booleans(), st.integers(-1, 3), st.none(), st.text(max_size=5))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.one_of(text, KEYS), inner, max_size=3)),
    max_leaves=6,
)
OTHERS = ["privileged", "devices", "gpus", "runtime", "provider", "uts", "userns_mode", "cgroup_parent", "label_file",
          "use_api_socket", "oom_score_adj", "credential_spec", "extends", "post_start", "models", "storage_opt",
          "external_links", "isolation", "blkio_config", "tomorrow"]  # fmt: skip
services = st.dictionaries(st.sampled_from(sorted(RULES) + OTHERS), values, max_size=5)
sections = st.dictionaries(st.sampled_from(["v", "data", "n", "default", "../x"]), values, max_size=3)
documents = st.fixed_dictionaries(
    {"services": st.dictionaries(st.sampled_from(["a", "b", "../c"]), st.one_of(services, values), max_size=2)},
    optional={
        key: st.one_of(sections, values) for key in ("volumes", "networks", "configs", "secrets", "include", "x")
    },
)


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, str):
        yield value


def reaches_the_host(answer: Admitted, directory: Path) -> list[str]:
    """Return the parts of an admitted document that lead out of its containers, judged without the list's own code."""
    problems = []
    for name, body in answer.document["services"].items():
        strange = set(body) - set(RULES)
        problems += [f"{name}: {key}" for key in strange]
        for key in ("network_mode", "pid", "ipc", "cgroup"):
            if re.match(r"host|container:|ns:|bridge", str(body.get(key, ""))):
                problems.append(f"{name}: {key}")
        problems += [f"{name}: {key}" for key in ("ports", "container_name") if key in body]
        for mount in body.get("volumes", []):
            source = mount.get("source", "")
            inside = os.path.realpath(directory / source).startswith(os.path.realpath(directory))
            if mount["type"] == "bind" and not ((mount.get("read_only") or source.startswith("./copies/")) and inside):
                problems.append(f"{name}: {mount}")
        if "/" in str(body.get("env_file", "")) and str(directory) not in str(body["env_file"]):
            problems.append(f"{name}: env_file")
    for section in ("volumes", "networks"):
        for about in answer.document.get(section, {}).values():
            problems += [f"{section}: {about}"] if set(about) - {"internal"} else []
    for section in ("configs", "secrets"):
        for about in answer.document.get(section, {}).values():
            problems += [f"{section}: {about}"] if set(about) - {"file", "content"} else []
    return problems + [text for text in leaves(answer.document) if SECRET in text or text == "/root"]


@settings(max_examples=int(os.environ.get("TAILOR_SAFETY_CASES", "400")), suppress_health_check=list(HealthCheck))
@given(documents)
def test_whatever_is_not_on_the_list_is_refused_and_what_is_on_it_does_not_reach_the_host(
    tmp_path_factory: pytest.TempPathFactory, compose: dict[str, Any]
) -> None:
    directory = tmp_path_factory.getbasetemp() / "application"
    (directory / "data").mkdir(parents=True, exist_ok=True)
    answer = admitted(compose, directory)
    refused = {refusal.place for refusal in answer.refused}
    bodies = compose["services"] if isinstance(compose["services"], Mapping) else {}
    for name, body in bodies.items():
        for key, value in body.items() if isinstance(body, Mapping) else ():
            asked = value not in (None, False, 0, "", "false", [], {})
            if key in OTHERS and asked and isinstance(name, str) and name in ("a", "b"):
                assert any(place.startswith(f"services.{name}.{key}") for place in refused), (name, key)
    if not answer.refused:
        assert reaches_the_host(answer, directory) == []


def test_plain_keys_are_those_that_stay_inside() -> None:
    """A key that leads out of a container must not become plain by a slip."""
    assert not set(PLAIN) & {*OTHERS, "volumes", "ports", "network_mode", "pid", "ipc", "cap_add", "security_opt"}
