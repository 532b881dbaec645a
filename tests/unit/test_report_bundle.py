"""The export of a best configuration: whole, without a path of this machine, and it says what to bring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from framework.compose.completed import completed
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.report.bundle import LARGEST, Bundle
from framework.report.export import export
from framework.testbeds.docker.builds import DockerBuilds
from framework.testbeds.docker.compose_config import ComposeConfig
from optimizer.space import Configuration
from tests.own_applications import Images, configured, needs_compose

COMPOSE = """\
services:
  web:
    build: .
    env_file: web.env
    volumes: ['./conf:/etc/web:ro', './state:/state', '/etc/localtime:/etc/localtime:ro', 'kept:/kept']
    secrets: [token]
  cache: {image: 'redis:7', volumes: ['./redis.conf:/redis.conf']}
volumes: {kept: {}}
secrets: {token: {file: ./token.txt}}
"""
FILES = {
    "compose.yaml": COMPOSE, "Dockerfile": "FROM scratch\n", "web.env": "PASSWORD=x\n", "conf/a/web.conf": "a\n",
    "state/db": "data", "redis.conf": "hz 10\n", "token.txt": "t", ".git/HEAD": "x",
    "workload.yaml": "kind: workload\nversion: 1\ntimeout_ms: 1000\nrequests: [{name: a, weight: 1, path: /}]\n",
    "application.yaml": "kind: application\nversion: 1\nname: shop\nservices: {cache: {type: redis}}\n"
    "workload: {file: workload.yaml, rate_rps: 5, target: 'http://web:80'}\n",
}  # fmt: skip


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "shop"


def exported(shop: Path, directory: Path, *, whole: bool = True) -> dict[str, Any]:
    types = load_service_types()
    application = completed(load_application(shop, ComposeConfig()), types, DockerBuilds(), Images())
    default = search_space(application, types, cores=2, memory_mib=4096).default()
    best = Configuration({**default, "cache.hz": 77})
    export(application, resolved(types, cores=2, memory_mib=4096), default, best, "s1", directory, whole=whole)
    document: dict[str, Any] = YAML(typ="safe").load(directory / "compose.yaml")
    return document


@needs_compose
def test_no_path_of_this_machine_is_left(shop: Path, tmp_path: Path) -> None:
    document = exported(shop, tmp_path / "out")
    assert str(tmp_path) not in str(document)
    web = document["services"]["web"]
    assert "image" not in web, "its image has a name on this machine only"
    assert (tmp_path / "out" / "app" / "Dockerfile").is_file()
    assert (tmp_path / "out" / "app" / "conf" / "a" / "web.conf").read_text() == "a\n"
    assert (tmp_path / "out" / "app" / "redis.conf").read_text() == "hz 10\n"
    assert not (tmp_path / "out" / "app" / ".git").exists()


@needs_compose
def test_another_machine_can_read_it(shop: Path, tmp_path: Path) -> None:
    exported(shop, tmp_path / "out")
    moved = (tmp_path / "out").rename(tmp_path / "elsewhere")
    (shop / "web.env").unlink()
    theirs = configured(moved, "-f", "compose.yaml")
    assert theirs["services"]["web"]["environment"]["PASSWORD"] == "x"
    sources = [mount["source"] for mount in theirs["services"]["web"]["volumes"] if mount["type"] == "bind"]
    assert all(source == "/etc/localtime" or Path(source).is_relative_to(moved) for source in sources)
    assert theirs["secrets"]["token"]["file"] == str(moved / "app" / "token.txt")


@needs_compose
def test_the_head_says_what_to_bring(shop: Path, tmp_path: Path) -> None:
    exported(shop, tmp_path / "out")
    for name in ("compose.yaml", "README.md"):
        said = (tmp_path / "out" / name).read_text()
        assert f"copy {shop / 'state'} to ./app/state" in said
        assert "The machine needs /etc/localtime." in said
        assert "Passwords may stand in" in said
        assert "docker compose -f compose.yaml up -d" in said
    assert "`files/`" not in (tmp_path / "out" / "README.md").read_text(), "there is none"


@needs_compose
def test_an_export_inside_the_application_does_not_copy_itself(shop: Path) -> None:
    exported(shop, shop / "best")
    assert not (shop / "best" / "app" / "best").exists()


@needs_compose
def test_what_the_service_sends_has_no_files_of_the_users(shop: Path, tmp_path: Path) -> None:
    exported(shop, tmp_path / "out", whole=False)
    assert not (tmp_path / "out" / "app").exists()


def test_large_directories_and_links_out_of_the_application_are_not_copied(tmp_path: Path) -> None:
    (tmp_path / "shop" / "large").mkdir(parents=True)
    with (tmp_path / "shop" / "large" / "file").open("wb") as file:
        file.truncate(LARGEST + 1)
    (tmp_path / "secret").write_text("x")
    (tmp_path / "shop" / "link").symlink_to(tmp_path / "secret")
    base = tmp_path / "shop"
    bundle = Bundle(base, (base,))
    mounts = [f"{base}/large:/a:ro", {"type": "bind", "source": f"{base}/link", "target": "/b", "read_only": True}]
    bundle.document({"services": {"web": {"image": "a", "volumes": mounts}}})
    assert bundle.brought == {"app/large": base / "large"}
    assert bundle.expected == [f"{base}/link"]
    assert bundle.copied == {}


def test_images_of_tailors_own_are_named(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path, (tmp_path,))
    bundle.document({"services": {"web": {"image": "tailor/social-network:1"}}})
    assert bundle.instructions == ["Images of Tailor's own, which `make images` builds: tailor/social-network:1."]
