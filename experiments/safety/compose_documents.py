"""Compose documents, made from a seed: keys of the allow-list, others, and values that lead out of a container."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from framework.compose.allow_list import RULES

OTHERS = (
    "blkio_config", "cgroup_parent", "credential_spec", "device_cgroup_rules", "devices", "extends", "external_links",
    "gpus", "isolation", "label_file", "models", "oom_kill_disable", "oom_score_adj", "post_start", "pre_stop",
    "privileged", "provider", "runtime", "storage_opt", "tomorrow", "use_api_socket", "userns_mode", "uts",
)  # fmt: skip
MEANINGFUL = (
    "cap_add", "cgroup", "configs", "deploy", "env_file", "environment", "extra_hosts", "ipc", "links", "logging",
    "network_mode", "networks", "pid", "ports", "restart", "secrets", "security_opt", "sysctls", "tmpfs", "volumes",
    "volumes_from",
)  # fmt: skip
TEXTS = (
    "host", "/", "/etc", "/etc/passwd", "/var/run/docker.sock", "${TAILOR_DATABASE}", "$TAILOR_DATABASE",
    "${PGPASSWORD}",
    "${HOME}", "${X:-host}", "${X:-/etc}", "${X-${Y:-/}}", "${X:?}", "$$HOME", "${TAILOR_DATABASE:-x}",
    "${TAILOR_DATABASE:+x}",
    "container:other", "service:b", "service:stranger", "~", "~/.ssh", "..", "../..", "./data", "./link", "./conf",
    "data",
    "0.0.0.0:1:1", "8080:80", "true", "false", "SYS_ADMIN", "NET_BIND_SERVICE", "ALL", "x", "", "a=b",
    "TAILOR_DATABASE",
    "PGPASSWORD", "HOME=1", "none", "private", "bridge", "default", "n", "c", "s", "seccomp:unconfined",
    "apparmor=unconfined",
    "no-new-privileges:true", "kernel.core_pattern=x", "net.core.somaxconn=1024", "x:host-gateway", "x:10.0.0.1",
    "\0", "a\nb",
    "/sys/fs/cgroup", "/proc", "/dev", "always", "on-failure", "0-3", "syslog", "json-file", "/etc/localtime",
    "\u2025/etc", "C:\\",
)  # fmt: skip
MOUNTS = (
    "/:/host", "/etc:/e:ro", " /etc:/e", "./data:/d", "./conf:/c:ro", "./conf:/c", "./link:/l:ro",
    "./link/passwd:/p:ro", "data:/v",
    "other:/v", "${X:-/etc}:/e", "${HOME}:/h", "~:/h", "../..:/u", "./data/../../..:/u", "/var/run/docker.sock:/s",
    "/v", "data:/v:z",
    "data:/v:rshared", "./data:/d:shared", "/etc/localtime:/t:ro", "/etc/localtime:/t", "./.socket:/s", ".:/all",
    "./:/all:ro",
    "./new:/n", "/proc/self/root/etc:/e:ro", "./data:/d:ro,Z", "data:/v:nocopy", "./conf/:/c", "./data//..//..:/u",
    "$$:/x",
)  # fmt: skip
# Keys of the allow-list, at its edges: a document of these alone is mostly admitted, and then has to stay inside.
GENTLE: Mapping[str, Sequence[Any]] = {
    "cap_add": (["NET_BIND_SERVICE"], ["cap_chown", "KILL"]),
    "cgroup": ("private", ""),
    "command": ("$$HOME", ["sh", "-c", "cat /etc/passwd; echo $${TAILOR_DATABASE}"], "${X:-/etc}", "--privileged"),
    "container_name": ("jaeger", "production"),
    "cpuset": ("0-1", "0"),
    "deploy": ({"replicas": 2, "placement": {"constraints": ["node.role == manager"]}},
    {"resources": {"limits": {"cpus": "1"}}}),
    "dns": ("10.0.0.1", ["8.8.8.8"]),
    "env_file": ("./conf", ["conf", {"path": "./data/none", "required": False}], "./data/../conf"),
    "environment": (["A=1", "B=$$C", "UNSET"], {"A": "${X:-y}", "B": None}, {"A": "${UNSET}"},
    {"A": "$${TAILOR_DATABASE}"}),
    "extra_hosts": (["x:10.0.0.1"], {"x": "127.0.0.1"}),
    "healthcheck": ({"test": ["CMD", "true"], "interval": "1s"},),
    "hostname": ("host", "localhost"),
    "ipc": ("private", "shareable", "none", "service:jaeger"),
    "labels": ({"traefik.enable": "true"}, ["com.docker.compose.project=production", "tailor.study=other"]),
    "links": (["jaeger"], ["jaeger:db"]),
    "logging": ({"driver": "local", "options": {"max-size": "1m"}}, {"driver": "none"}),
    "mac_address": ("02:42:ac:11:00:02",),
    "network_mode": ("none", "service:jaeger"),
    "networks": (["n"], {"default": {"aliases": ["db"]}}, {"n": {"ipv4_address": "10.0.0.2"}}),
    "pid": ("service:jaeger", ""),
    "ports": (["8080:80"], ["127.0.0.1:1:1"], [{"target": 80, "published": "8080", "mode": "host"}]),
    "privileged": (False, "false", ""),
    "profiles": (["tailor"],),
    "read_only": (True,),
    "restart": ("always", "unless-stopped", "no"),
    "security_opt": (["no-new-privileges:true"],),
    "stop_signal": ("SIGTERM",),
    "sysctls": ({"net.core.somaxconn": 1024}, ["kernel.shmmax=1"]),
    "tmpfs": ("/t", ["/t:size=1m,mode=700"]),
    "ulimits": ({"nofile": 1024},),
    "user": ("0", "root"),
    "volumes": tuple([volume] for volume in (
        "./conf:/c:ro", "./conf:/c", "./data:/d", "./data:/d:ro", ".:/all:ro", ".:/all", "./new:/n", "data:/v",
        "data:/v:z", "/v",
        "/etc/localtime:/t:ro", "./data/../conf:/c:ro", "$$:/x", {"type": "tmpfs", "target": "/t",
        "tmpfs": {"size": 1}},
        {"type": "bind", "source": "./data", "target": "/d", "bind": {"create_host_path": True, "selinux": "Z"}},
        {"type": "volume", "source": "data", "target": "/v", "volume": {"subpath": "a/b"}, "read_only": "true"},
    )),
    "volumes_from": (["jaeger"], ["jaeger:ro"]),
    "working_dir": ("/", ".."),
}  # fmt: skip
KINDS = ("bind", "volume", "tmpfs", "npipe", "cluster", "image", "${T:-bind}", "BIND", "", None, 1)


class Documents:
    """An endless series; half of its services keep to meaningful keys and values, so that many are admitted."""

    def __init__(self, seed: str, outside: Path) -> None:
        """``outside``: an absolute directory that no document may reach."""
        self._random = random.Random(seed)
        self._texts = (*TEXTS, str(outside), f"{outside}/passwd")
        self._mounts = (*MOUNTS, f"{outside}:/o", f"{outside}/passwd:/p:ro")

    def next(self) -> dict[str, Any]:
        """The next document."""
        rng = self._random
        if rng.random() < 0.35:
            return self._gentle()
        services = {name: self._service() for name in ("a", "b", "jaeger")[: rng.choice([2, 3, 3])]}
        services.setdefault("jaeger", {"image": "x"})
        document: dict[str, Any] = {"services": services}
        if rng.random() < 0.8:
            document["volumes"] = {"data": rng.choice([None, {}])}
        for section, names in (("volumes", "data"), ("networks", "n"), ("configs", "c"), ("secrets", "s")):
            if rng.random() < 0.25:
                name = rng.choice([names, names, "default", "../x", "x y"])
                document[section] = {**(document.get(section) or {}), name: self._declared(section)}
        if rng.random() < 0.03:
            document[rng.choice(["include", "x-more", "version", "name", "models", "tomorrow"])] = self._value(2)
        if rng.random() < 0.02:
            document[rng.choice(["volumes", "networks", "services", "configs"])] = self._value(2)
        return document

    def _gentle(self) -> dict[str, Any]:
        """Draw keys of the allow-list, and now and then one that is forbidden."""
        rng = self._random
        body: dict[str, Any] = {"image": "x"}
        for key in rng.sample(sorted(GENTLE), rng.choice([1, 2, 4, 6])):
            body[key] = rng.choice(GENTLE[key])
        if rng.random() < 0.25:
            key = rng.choice(MEANINGFUL)
            body[key] = self._of(key)
        return {
            "services": {"a": body, "b": {"image": "x"}, "jaeger": {"image": "x"}},
            "volumes": {"data": rng.choice([None, {"name": "production"}, {"driver": "local"}])},
            "networks": {"n": rng.choice([None, {"name": "production"}, {"driver": "bridge", "internal": True}])},
            **rng.choice([{}, {"configs": {"c": {"content": "$$A"}}}, {"secrets": {"s": {"file": "./conf"}}}]),
        }

    def _service(self) -> dict[str, Any]:
        rng = self._random
        body: dict[str, Any] = {"image": rng.choice(["x", "x:1", "${X:-x}", "x@sha256:" + "0" * 64])}
        for _ in range(rng.choice([0, 1, 1, 2, 3, 4])):
            which = rng.random()
            key = rng.choice(MEANINGFUL if which < 0.7 else sorted(RULES) if which < 0.9 else OTHERS)
            body[key] = self._of(key)
        if rng.random() < 0.05:
            body.update(rng.choice(self._whole()))
        return body

    def _of(self, key: str) -> Any:
        rng = self._random
        if rng.random() < 0.25:
            return self._value(3)
        if key == "volumes":
            return [self._mount() for _ in range(rng.choice([1, 1, 2, 3]))]
        if key == "environment":
            return rng.choice([self._list(), {self._text(): rng.choice([None, self._text()])}])
        if key == "env_file":
            return rng.choice([self._text(), self._list(), [{"path": self._text(), "required": rng.random() < 0.5}]])
        if key == "networks":
            return rng.choice(
                [["n"], ["default"], {"n": {rng.choice(["aliases", "ipv4_address", "driver_opts"]): self._list()}}]
            )
        if key in ("configs", "secrets"):
            return [rng.choice([key[0], {"source": key[0], "target": self._text()}, self._text()])]
        if key == "logging":
            return {
                "driver": self._text(),
                "options": {rng.choice(["max-size", "syslog-address", "path"]): self._text()},
            }
        if key == "deploy":
            asks = {"reservations": {rng.choice(["devices", "cpus"]): self._value(2)}, "limits": {"cpus": "1"}}
            return {rng.choice(["replicas", "placement", "mode"]): self._value(1), "resources": asks}
        if key == "ports":
            return [rng.choice([self._text(), {"target": 80, "published": "80", "host_ip": self._text()}])]
        return rng.choice([self._text(), self._list(), self._value(2)])

    def _mount(self) -> Any:
        rng = self._random
        if rng.random() < 0.6:
            return rng.choice(self._mounts)
        mount: dict[str, Any] = {
            "type": rng.choice(KINDS),
            "source": self._text(),
            "target": rng.choice(["/t", "t", self._text()]),
        }
        if rng.random() < 0.4:
            mount["read_only"] = rng.choice([True, False, "true", "no", 1, "${X:-false}"])
        if rng.random() < 0.3:
            kind = rng.choice(["bind", "volume", "tmpfs", "image"])
            option = rng.choice(["propagation", "create_host_path", "selinux", "subpath", "nocopy", "size", "mode"])
            mount[kind] = {option: rng.choice(["rshared", "rprivate", "../..", True, self._text(), 1])}
        return mount

    def _declared(self, section: str) -> Any:
        rng = self._random
        keys = {
            "volumes": ("driver", "driver_opts", "external", "name", "labels"),
            "networks": ("driver", "driver_opts", "external", "name", "ipam", "internal", "attachable"),
            "configs": ("file", "content", "environment", "external", "name"),
            "secrets": ("file", "environment", "external", "name", "driver", "content"),
        }[section]
        return {
            rng.choice(keys): rng.choice([self._text(), self._value(2), True]) for _ in range(rng.choice([1, 1, 2]))
        }

    def _whole(self) -> Sequence[dict[str, Any]]:
        """Draw combinations that are dangerous only as a whole."""
        return (
            {"network_mode": "service:b", "pid": "service:b", "ipc": "service:b"},
            {"volumes": [{"type": "volume", "source": "data", "target": "/t", "volume": {"subpath": "../../etc"}}]},
            {"volumes": [{"type": "bind", "source": "./link", "target": "/t", "bind": {"create_host_path": True}}]},
            {"environment": {"A": "${TAILOR_DATABASE:-${PGPASSWORD}}"}, "command": ["$$(cat", "/etc/passwd)"]},
            {"env_file": "./conf", "label_file": "./conf"},
            {"build": {"context": "/", "args": ["TAILOR_DATABASE"]}, "image": "x"},
            {"deploy": {"resources": {"reservations": {"devices": [{"capabilities": ["gpu"]}]}}}},
        )  # fmt: skip

    def _text(self) -> str:
        return self._random.choice(self._texts)

    def _list(self) -> list[str]:
        return [self._text() for _ in range(self._random.choice([0, 1, 1, 2, 3]))]

    def _value(self, depth: int) -> Any:
        rng = self._random
        kind = rng.randrange(8 if depth else 6)
        if kind < 3:
            return self._text()
        if kind < 6:
            return rng.choice([None, True, False, 0, 1, -1, 2**63, 1.5, ""])
        if kind == 6:
            return [self._value(depth - 1) for _ in range(rng.randrange(3))]
        keys = ("type", "source", "target", "driver", "external", "name", "file", "path", "options", "devices", "x-a")
        return {rng.choice([*keys, self._text()]): self._value(depth - 1) for _ in range(rng.randrange(3))}
