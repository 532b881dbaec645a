"""The rendered default is what compose itself says of the user's files, but for what Tailor means to change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from framework.compose.gate import Gate
from framework.compose.interpolation import escaped
from framework.testbeds.docker.run_directory import compose_file, write
from tests.own_applications import CASES, NGINX_CONF, OWN, application_of, configured, needs_compose, rendered

CHANGED = {  # key of a service -> why it differs
    "labels", "ports", "container_name", "restart", "build", "profiles", "networks", "volumes", "image", "env_file",
    "configs", "secrets",
}  # fmt: skip


def services(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what compose says of each service, without what Tailor means to change and without nothing."""
    return {
        name: {key: value for key, value in service.items() if key not in CHANGED and value not in (None, [], {})}
        for name, service in document["services"].items()
    }


def targets(service: Mapping[str, Any]) -> set[str]:
    return {str(mount["target"]) for mount in service.get("volumes") or []}


def networks(service: Mapping[str, Any]) -> set[str]:
    return set(service.get("networks") or {"default": None})


@needs_compose
@pytest.mark.parametrize("case", CASES)
def test_the_default_is_the_user_s_own_document(case: str, tmp_path: Path) -> None:
    application = application_of(case)
    deployment = rendered(case)
    (document,) = deployment.documents.values()
    admitted = Gate().deployment(deployment, document, tmp_path)
    write(tmp_path, escaped(admitted.document), deployment.files, admitted.files)
    theirs = configured(OWN / case, "--profile", "tailor")
    ours = configured(tmp_path, "-f", str(compose_file(tmp_path)), "--profile", "tailor")
    assert services(ours) == services(theirs)
    for name, service in theirs["services"].items():
        own = ours["services"][name]
        assert targets(own) >= targets(service)
        assert networks(own) == networks(service)
        assert own["image"] == service.get("image", application.compose["services"][name]["image"])
        assert own.get("restart") in (service.get("restart"), "on-failure")
        assert "ports" not in own
    for path, text in deployment.files.items():
        service, _, file = path.removeprefix("files/").partition("/")
        own_file = OWN / case / file.rpartition("-")[2]
        assert text == (own_file.read_text() if own_file.exists() else NGINX_CONF), f"{service}'s file is as it was"
