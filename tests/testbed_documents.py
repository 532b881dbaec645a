"""Small deployments for the testbed's tests: a cache, a store with a volume, and a web server with a mounted file."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from framework.compose.gate import CLOSED, Gate
from framework.model import (
    Application,
    Deployment,
    Expectation,
    Hook,
    Hooks,
    Objective,
    Probe,
    Service,
    ServiceType,
    Tracing,
    Workload,
)
from framework.testbeds.docker.document import Wanted, one_document, wanted
from optimizer.space import Configuration

MEMCACHED_READY = Probe("tcp", port=11211, send="version\r\n", until="\n", pattern="VERSION (.+)")
MEMORY = Probe(
    "tcp", port=11211, send="stats settings\r\n", until="END\r\n", pattern=r"STAT maxbytes (\d+)", multiply=2**-20
)
ITEMS = Probe("tcp", port=11211, send="stats\r\n", until="END\r\n", pattern=r"STAT curr_items (\d+)")
REDIS_READY = Probe("tcp", port=6379, send="PING\r\n", until="\n", pattern=r"(\+PONG)")
REDIS_KEYS = Probe("tcp", port=6379, send="DBSIZE\r\n", until="\n", pattern=r":(\d+)")

TYPES: Mapping[str, ServiceType] = {
    "memcached": ServiceType(
        "memcached", "", (), MEMCACHED_READY, (("tcp", "11211", "flush_all\r\n"),), {"items": ITEMS}
    ),
    "redis": ServiceType("redis", "", (), REDIS_READY, (), {"keys": REDIS_KEYS}),
    "nginx": ServiceType("nginx", "", (), Probe("http", port=8080, path="/", pattern="(.+)"), (), {}),
}

NGINX = """\
events {}
http { server { listen 8080; location / { return 200 "%s\\n"; } } }
"""


def quiet(_: str) -> None:
    """Ignore progress."""


def new_project() -> str:
    return f"tailor-test-{secrets.token_hex(4)}"


def document(memory_mib: int = 64) -> dict[str, Any]:
    """A cache, and a store that saves its data in a volume on every write; ``seed`` fills it, ``fill`` the cache."""
    redis = ["redis-server", "--appendonly", "yes", "--appendfsync", "always"]
    client = {"image": "redis:7.0", "profiles": ["tailor"], "entrypoint": ["redis-cli", "-h", "store"]}
    return {
        "services": {
            "cache": {
                "image": "memcached:1.6",
                "command": ["memcached", "-m", str(memory_mib)],
                "labels": {"tailor.type": "memcached"},
            },
            "store": {
                "image": "redis:7.0",
                "command": redis,
                "volumes": ["data:/data"],
                "labels": ["tailor.type=redis"],
            },
            "seed": {**client, "command": ["mset", "a", "1", "b", "2"]},
            "change": {**client, "command": ["set", "c", "3"]},
            "fail": {
                "image": "redis:7.0",
                "profiles": ["tailor"],
                "entrypoint": ["sh", "-c"],
                "command": ["echo wrong"],
            },
        },
        "volumes": {"data": {}},
    }


def with_web(source: dict[str, Any]) -> dict[str, Any]:
    source["services"]["web"] = {
        "image": "nginx:1.22",
        "labels": {"tailor.type": "nginx"},
        "volumes": ["./files/web/nginx.conf:/etc/nginx/nginx.conf:ro"],
    }
    return source


def deployment(
    project: str,
    source: Mapping[str, Any],
    *,
    memory_mib: int | None = None,
    trial: int = 1,
    fresh: Literal["all", "changed"] = "all",
    files: Mapping[str, str] | None = None,
) -> Deployment:
    expectations: tuple[Expectation, ...] = ()
    configuration = Configuration({})
    if memory_mib is not None:
        expectations = (Expectation("cache", "memory_mib", memory_mib, MEMORY),)
        configuration = Configuration({"cache.memory_mib": memory_mib})
    labels = {
        "tailor.study": project.removeprefix("tailor-"),
        "tailor.application": "small",
        "tailor.trial": str(trial),
        "tailor.repetition": "0",
    }
    return Deployment(
        "small", project, configuration, {"local": source}, files or {}, expectations, labels=labels, fresh=fresh
    )


def wanted_of(deployment: Deployment, own: Path = Path("/run/tailor-test"), gate: Gate = CLOSED) -> Wanted:
    """Return the state that the engine is to run for a deployment whose directory is ``own``."""
    return wanted(deployment, gate.deployment(deployment, one_document(deployment), own))


def application(name: str, directory: Path, source: Mapping[str, Any], *, seed: bool = True) -> Application:
    return Application(
        name=name,
        directory=directory,
        compose=source,
        services=(Service("cache", "memcached", "local"), Service("store", "redis", "local")),
        hosts=("local",),
        workload=Workload(1.0, "poisson", "http://web:8080", {}),
        tracing=Tracing("jaeger"),
        objective=Objective(),
        hooks=Hooks(seed=Hook("seed") if seed else None),
        content_hash=secrets.token_hex(8),
    )
