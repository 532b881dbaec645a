"""Compose files with values of a wrong type: they are refused, and cause no bug."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from framework.compose import render
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.model import ServiceType
from optimizer.space import Configuration
from tests.unit.test_compose_safety import service

ROOT = Path(__file__).resolve().parents[2]
OF_ANOTHER_FORM: list[tuple[dict[str, Any], str]] = [
    ({"depends_on": 1}, "services.a.depends_on"),
    ({"depends_on": "b"}, "services.a.depends_on"),
    ({"depends_on": [["b"]]}, "services.a.depends_on"),
    ({"depends_on": {"b": "service_started"}}, "services.a.depends_on.b"),
    ({"logging": {"options": 1.5}}, "services.a.logging.options"),
    ({"logging": {"driver": "json-file", "options": ["syslog-address"]}}, "services.a.logging.options"),
    ({"deploy": {"resources": 1}}, "services.a.deploy.resources"),
    ({"deploy": {"resources": {"limits": True}}}, "services.a.deploy.resources.limits"),
    ({"deploy": {"resources": {"reservations": ["devices"]}}}, "services.a.deploy.resources.reservations"),
]


@pytest.mark.parametrize("logging", ["syslog", ["syslog"], "${X:-syslog}", True, 1])
def test_logging_of_another_form_is_refused(tmp_path: Path, logging: Any) -> None:
    """A logging section that is not understood is never handed on."""
    assert service(tmp_path, logging=logging)[0] == ["services.a.logging"]
    refused, kept, _ = service(tmp_path, logging={})
    assert (refused, kept) == ([], {"image": "x"})


@pytest.mark.parametrize(("keys", "says"), OF_ANOTHER_FORM)
def test_what_has_another_form_is_refused_and_no_bug(tmp_path: Path, keys: dict[str, Any], says: str) -> None:
    assert service(tmp_path, **keys)[0] == [says]


@pytest.mark.parametrize("depends_on", [["b"], {"b": None}, {"b": {"condition": "service_healthy"}}, [], {}, None])
def test_what_a_service_depends_on_is_handed_on(tmp_path: Path, depends_on: Any) -> None:
    refused, kept, _ = service(tmp_path, depends_on=depends_on)
    assert (refused, kept.get("depends_on")) == ([], depends_on or None)


@pytest.mark.parametrize("secret", [[], False, 1, {}, None])
def test_a_secret_whose_file_is_no_text_can_be_rendered(tmp_path: Path, secret: Any) -> None:
    application = load_application(ROOT / "tests" / "cases" / "good" / "small")
    strange: dict[str, Any] = {
        **application.compose["services"],
        "cache": {"image": "x", "secrets": ["s"], "env_file": {"path": secret, "required": False}},
    }
    object.__setattr__(application, "compose", {"services": strange, "secrets": {"s": {"file": secret}}})
    [document] = render(application, types(), Configuration({}), project="p", labels={}).documents.values()
    assert document["secrets"] == {"s": {"file": secret}}


def types() -> Mapping[str, ServiceType]:
    return resolved(load_service_types(), cores=2, memory_mib=16_384)
