"""Values of services that nothing but their image describes: files inside it, and variables of a line for its shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from framework.compose.arguments import arguments_of
from framework.compose.service import apply_settings
from framework.compose.service_files import Setting
from framework.config.application import load_application
from framework.config.knowledge import load_service_types
from framework.model import Application, Apply, Edit, ImageFacts, ParameterDefinition

TYPES = load_service_types()


def test_a_file_of_an_image_is_changed_where_the_service_has_no_volumes() -> None:
    edit = Edit("/etc/server.conf", r"^threads\s", "threads {value}")
    threads = ParameterDefinition("threads", "integer", 1, Apply("file", edits=(edit,)), None, "workers", low=1, high=9)
    image = ImageFacts(files={"/etc/server.conf": "threads 1\n"})
    rendered = apply_settings("web", {"image": "web:1"}, [Setting(threads, 3, written=True)], image=image)
    assert rendered.files == {"files/web/etc-server.conf": "threads 3\n"}
    assert rendered.entry["volumes"] == ["./files/web/etc-server.conf:/etc/server.conf:ro"]


def redis(directory: Path, service: str) -> Application:
    (directory / "application.yaml").write_text(
        "kind: application\nversion: 1\nname: cached\nservices: {cache: {type: redis}}\n"
        'workload: {file: workload.yaml, rate_rps: 5, target: "http://cache:80"}\n'
    )
    (directory / "workload.yaml").write_text(
        "kind: workload\nversion: 1\ntimeout_ms: 1000\nrequests: [{name: root, weight: 1, path: /}]\n"
    )
    (directory / "compose.yaml").write_text(f"services: {{cache: {service}}}\n")
    return load_application(directory)


def arguments(directory: Path, service: str) -> dict[str, Any]:
    application = redis(directory, service)
    return arguments_of(application, TYPES["redis"], application.services[0])


def test_a_variable_in_a_line_for_a_shell_stands_for_its_value(tmp_path: Path) -> None:
    line = '"exec redis-server --port 7000 --requirepass \\"$$PASSWORD\\""'
    service = f'{{image: "redis:7", command: [sh, -c, {line}], environment: {{PASSWORD: secret}}}}'
    assert arguments(tmp_path, service) == {"port": "7000", "auth": "AUTH secret\r\n"}


def test_without_a_shell_a_dollar_is_one(tmp_path: Path) -> None:
    service = '{image: "redis:7", command: [redis-server, --requirepass, "a$$b"], environment: {b: no}}'
    assert arguments(tmp_path, service)["auth"] == "AUTH a$b\r\n"
