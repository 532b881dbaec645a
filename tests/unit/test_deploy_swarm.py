"""deploy/swarm.yaml: compose reads it, and each part runs where its data and its engine are."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from framework.config.settings import Settings
from framework.store.database import Database
from tests.databases import Server
from tests.own_applications import needs_compose

DEPLOY = Path(__file__).parents[2] / "deploy"
GIVEN = {"TAILOR_HOME": "/var/lib/tailor", "APPLICATIONS": "/srv/tailor/apps", "DATABASE_HOST": "10.0.0.1"}


def stack(**given: str) -> dict[str, Any]:
    done = subprocess.run(
        ["docker", "compose", "-f", str(DEPLOY / "swarm.yaml"), "config", "--format", "json"],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(Path.home()), **given}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@needs_compose
def test_every_part_has_its_place() -> None:
    services = stack(**GIVEN)["services"]
    places = {name: service["deploy"]["placement"]["constraints"] for name, service in services.items()}
    database = ["node.labels.tailor.database == true"]
    assert places == {"api": database, "database": database, "jaeger": database,
                      "worker": ["node.labels.tailor.worker == true"]}  # fmt: skip
    assert services["worker"]["deploy"]["mode"] == "global", "one a node: an engine is for one study at a time"
    assert "--no-worker" in services["api"]["command"]
    for name in ("api", "worker"):
        mounts = {mount["source"]: mount["target"] for mount in services[name]["volumes"]}
        assert all(source == target for source, target in mounts.items())
        assert GIVEN["TAILOR_HOME"] in mounts
        settings = Settings.from_environment({**services[name]["environment"], "TAILOR_APPLICATIONS": ""})
        assert settings.database.startswith("postgresql+psycopg://tailor@10.0.0.1:5433/tailor?")


@needs_compose
def test_no_password_is_in_the_stack_and_what_is_missing_is_named() -> None:
    assert "PASSWORD:" not in (DEPLOY / "swarm.yaml").read_text()
    with pytest.raises(AssertionError, match="DATABASE_HOST"):
        stack(**{name: value for name, value in GIVEN.items() if name != "DATABASE_HOST"})
    named = (DEPLOY / "example-swarm.env").read_text()
    assert all(f"{name}=" in named for name in GIVEN)


def test_the_form_is_one_that_stacks_know() -> None:
    document = YAML(typ="safe").load(DEPLOY / "swarm.yaml")
    assert document["version"] == "3.8"
    # Keys of compose that `docker stack deploy` ignores or refuses.
    unknown = {"network_mode", "restart", "container_name", "depends_on", "build", "privileged", "links"}
    assert {key for service in document["services"].values() for key in service} & unknown == set()
    assert "name" not in document


@pytest.mark.docker
def test_the_database_takes_its_password_from_a_file_that_only_its_reader_may_read(tmp_path: Path) -> None:
    with Server() as server:
        address = server.url.replace(":secret@", "@")
        passfile = tmp_path / "tailor-pgpass"
        passfile.write_text("*:*:postgres:postgres:secret\n")
        passfile.chmod(0o400)
        Database(f"{address}?passfile={passfile}").close()
