"""Types of servers as people run them: settings in other files, flags in their own spelling, what is absent."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from framework.compose import render
from framework.compose.completed import completed
from framework.compose.files import plain_line
from framework.compose.fitted import fitted
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.model import (
    Application,
    Apply,
    Argument,
    Deployment,
    Edit,
    ImageFacts,
    ParameterDefinition,
    Probe,
    ServiceType,
)
from optimizer.space import Configuration, Value

TYPES = load_service_types()
ON_HOST = resolved(TYPES, cores=4, memory_mib=4096)
NGINX_CONF = "worker_processes auto;\nevents {\n}\nhttp {\n    include /etc/nginx/conf.d/*.conf;\n}\n"
SITE = """\
upstream api {
    server api:80;
}
server {
    location / {
        proxy_set_header Host $host;
        proxy_pass http://api;
    }
}
"""
KEPT = SITE.replace("upstream api {\n", "upstream api {\n        keepalive 16;\n").replace(
    "Host $host;\n", 'Host $host;\n    proxy_set_header Connection "";\n'
)


class Images:
    """Images of a machine that has one, with files; implements ``framework.ports.images.ImageReader``."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def facts(self, image: str) -> ImageFacts:
        return ImageFacts()

    def names(self, image: str, directory: str) -> Sequence[str]:
        return [path.rpartition("/")[2] for path in self.files if path.rpartition("/")[0] == directory]

    def text(self, image: str, path: str) -> str | None:
        return self.files.get(path)


def load(directory: Path, kind: str, compose: str, files: dict[str, str] | None = None) -> Application:
    """Return an application of one service, web; ``files``: inside its image."""
    (directory / "workload.yaml").write_text(
        "kind: workload\nversion: 1\ntimeout_ms: 1000\nrequests: [{name: root, weight: 1, path: /}]\n"
    )
    (directory / "application.yaml").write_text(
        f"kind: application\nversion: 1\nname: own\nservices: {{web: {{type: {kind}}}}}\n"
        'workload: {file: workload.yaml, rate_rps: 5, target: "http://web:80"}\n'
    )
    (directory / "compose.yaml").write_text(f"services: {{web: {compose}}}\n")
    return completed(load_application(directory), TYPES, None, Images(files) if files is not None else None)


def rendered(application: Application, **changed: Value) -> Deployment:
    space = search_space(application, TYPES, cores=4, memory_mib=4096)
    values = {f"web.{name}": value for name, value in changed.items()}
    configuration = Configuration({**space.default(), **values})
    return render(application, ON_HOST, configuration, project="p", labels={})


# --------------------------------------------------------------------------- nginx


def test_upstreams_in_a_mounted_file_of_conf_d_are_kept_alive(tmp_path: Path) -> None:
    (tmp_path / "site.conf").write_text(SITE)
    volume = "./site.conf:/etc/nginx/conf.d/default.conf:ro"
    application = load(
        tmp_path, "nginx", f"{{image: 'nginx:1.27', volumes: ['{volume}']}}", {"/etc/nginx/nginx.conf": NGINX_CONF}
    )
    assert application.unsettable == {}
    after = rendered(application, upstream_keepalive=16)
    assert after.files["files/web/etc-nginx-conf.d-default.conf"] == KEPT
    assert "proxy_http_version 1.1;" in after.files["files/web/etc-nginx-nginx.conf"]
    assert rendered(application).files["files/web/etc-nginx-conf.d-default.conf"] == SITE


def test_upstreams_in_a_mounted_directory_or_an_image_are_kept_alive_too(tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "a.conf").write_text(SITE)
    (tmp_path / "sites" / "b.conf").write_text("server {\n    listen 81;\n}\n")
    service = "{image: 'nginx:1.27', volumes: ['./sites:/etc/nginx/conf.d:ro']}"
    hidden = {"/etc/nginx/nginx.conf": NGINX_CONF, "/etc/nginx/conf.d/hidden.conf": SITE}
    after = rendered(load(tmp_path, "nginx", service, hidden), upstream_keepalive=16)
    assert after.files["files/web/etc-nginx-conf.d-a.conf"] == KEPT
    assert sorted(after.files) == ["files/web/etc-nginx-conf.d-a.conf", "files/web/etc-nginx-nginx.conf"]

    inside = {"/etc/nginx/nginx.conf": NGINX_CONF, "/etc/nginx/conf.d/site.conf": SITE}
    after = rendered(load(tmp_path, "nginx", "{image: 'nginx:1.27'}", inside), upstream_keepalive=16)
    assert after.files["files/web/etc-nginx-conf.d-site.conf"] == KEPT


def test_a_number_in_another_file_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "site.conf").write_text(SITE.replace("upstream api {", "upstream api {\n    keepalive 32;"))
    service = "{image: 'nginx:1.27', volumes: ['./site.conf:/etc/nginx/conf.d/default.conf:ro']}"
    present = load(tmp_path, "nginx", service, {"/etc/nginx/nginx.conf": NGINX_CONF}).present
    assert present["web.upstream_keepalive"].value == 32
    assert present["web.upstream_keepalive"].where == "/etc/nginx/conf.d/default.conf"


def test_without_an_upstream_it_is_left_alone_in_plain_words(tmp_path: Path) -> None:
    application = load(tmp_path, "nginx", "{image: 'nginx:1.27'}", {"/etc/nginx/nginx.conf": NGINX_CONF})
    reason = "/etc/nginx/nginx.conf has no line 'upstream ... {', after which 'keepalive {value};' would stand"
    assert application.unsettable == {"web.upstream_keepalive": reason}


@pytest.mark.parametrize(("line", "value"), [("", 1), ("worker_processes auto;\n", None), ("worker_processes 3;\n", 3)])
def test_a_server_that_is_told_nothing_has_its_own_default(tmp_path: Path, line: str, value: int | None) -> None:
    text = NGINX_CONF.replace("worker_processes auto;\n", line)
    application = load(tmp_path, "nginx", "{image: 'nginx:1.27'}", {"/etc/nginx/nginx.conf": text})
    present = application.present.get("web.worker_processes")
    assert (present.value if present is not None else None) == value
    default = search_space(application, TYPES, cores=4, memory_mib=4096).default()["web.worker_processes"]
    assert default == (value or 4), "auto is the number of cores"


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"^\s*events\s*\{\s*$", "events {"),
        (r"^\s*upstream\s+\S+\s*\{\s*$", "upstream ... {"),
        (r"^global\s*(#.*)?$", "global"),
        (r"^defaults(\s|$)", "defaults"),
        (r"^    type:\s+[\"']?(STATIC|EDS)", "type: STATIC"),
    ],
)
def test_messages_show_a_line_instead_of_its_pattern(pattern: str, line: str) -> None:
    assert plain_line(pattern) == line


# --------------------------------------------------------------------------- flags and variables


def service_of(deployment: Deployment) -> dict[str, Any]:
    return dict(deployment.documents["local"]["services"]["web"])


@pytest.mark.parametrize(
    ("command", "after"),
    [
        ("gunicorn -w 4 --threads=2 app:app", ["gunicorn", "-w", "8", "--threads=6", "app:app"]),
        ("gunicorn --workers 4 --threads 2 app:app", ["gunicorn", "--workers", "8", "--threads", "6", "app:app"]),
    ],
)
def test_gunicorn_s_options_are_replaced_where_its_command_has_them(
    tmp_path: Path, command: str, after: list[str]
) -> None:
    application = load(tmp_path, "python-gunicorn", f"{{image: app, command: '{command}'}}")
    assert application.present["web.workers"].value == 4
    assert application.present["web.threads"].value == 2
    service = service_of(rendered(application, workers=8, threads=6, backlog=512))
    assert service["command"] == after
    assert service["environment"] == {"GUNICORN_CMD_ARGS": "--backlog=512"}


def test_gunicorn_s_variables_are_used_where_its_command_has_no_options(tmp_path: Path) -> None:
    application = load(tmp_path, "python-gunicorn", "{image: app, environment: {GUNICORN_CMD_ARGS: '--threads 2'}}")
    service = service_of(rendered(application, workers=8))
    assert service["environment"] == {"GUNICORN_CMD_ARGS": "--threads 2", "WEB_CONCURRENCY": "8"}
    assert "command" not in service


def test_a_type_that_builds_on_another_keeps_its_own_command(tmp_path: Path) -> None:
    service = service_of(rendered(load(tmp_path, "valkey", "{image: 'valkey/valkey:8'}"), hz=50))
    assert service["command"] == ["valkey-server", "--hz", "50"]
    assert {p.apply.name for p in TYPES["spring-boot"].parameters if p.apply.kind == "flag"} <= {""}


@pytest.mark.parametrize(
    ("inside", "mount", "path"),
    [
        ("/usr/local/etc/php-fpm.d/www.conf", "", "/usr/local/etc/php-fpm.d/zz-tailor.conf"),
        ("/etc/php/8.2/fpm/pool.d/www.conf", "", "/etc/php/8.2/fpm/pool.d/zz-tailor.conf"),
        ("/etc/other", "./shop.conf:/etc/php/8.3/fpm/pool.d/shop.conf", "/etc/php/8.3/fpm/pool.d/zz-tailor.conf"),
        ("/etc/other", "", ""),
    ],
)
def test_a_file_is_made_where_the_server_of_the_image_reads_it(
    tmp_path: Path, inside: str, mount: str, path: str
) -> None:
    (tmp_path / "shop.conf").write_text("[shop]\n")
    application = load(tmp_path, "php-fpm", f"{{image: me/php, volumes: [{mount}]}}", {inside: ""})
    _, known, _ = fitted(application, TYPES, application.services[0])
    [pm] = [parameter for parameter in known["php-fpm"].parameters if parameter.name == "pm"]
    if path:
        assert {edit.path for edit in pm.apply.edits} == {path}
        assert "web.pm" not in application.unsettable
    else:
        said = "its image has no directory /usr/local/etc/php-fpm.d that its server reads"
        assert application.unsettable["web.pm"] == said


def test_an_argument_stands_in_flags_and_key_paths(tmp_path: Path) -> None:
    application = load(tmp_path, "traefik", "{image: 'traefik:3', command: [traefik]}")
    flag = ParameterDefinition(
        "streams", "integer", 250, Apply("flag", "traefik", "--entryPoints.{entry}.streams={value}"), None, "queue"
    )
    edit = Edit("/etc/t.yaml", "", "{value}", create=True, key="points[name={entry}].limit", format="yaml")
    limit = ParameterDefinition("limit", "integer", 1, Apply("file", edits=(edit,)), None, "queue")
    arguments = {"entry": Argument("web"), "port": Argument("80")}
    kind = ServiceType("traefik", "", (flag, limit), None, (), {}, arguments=arguments)
    service = replace(application.services[0], arguments={"entry": "https"})
    _, types, _ = fitted(application, {"traefik": kind}, service)
    streams, limited = types["traefik"].parameters
    assert streams.apply.template == "--entryPoints.https.streams={value}"
    assert limited.apply.edits[0].key == "points[name=https].limit"


def test_an_absent_value_may_be_an_expression() -> None:
    probe = Probe("command", r"threads (\d+)", command=("server", "-s"), absent="host.cores * 2")
    threads = ParameterDefinition(
        "threads", "integer", "host.cores * 2", Apply("environment", "T"), probe, "workers", low=1, high=64
    )
    kind = ServiceType("server", "", (threads,), None, (), {})
    [parameter] = resolved({"server": kind}, cores=3, memory_mib=1024)["server"].parameters
    assert parameter.read_back is not None
    assert parameter.read_back.absent == 6


# --------------------------------------------------------------------------- Envoy

ENVOY = """\
# of the team
static_resources:
    clusters:  # four blanks
        - name: api
          connect_timeout: 1s
        - {name: web, lb_policy: ROUND_ROBIN}
    listeners:
        - name: http
"""


def test_envoy_s_clusters_are_changed_in_any_layout(tmp_path: Path) -> None:
    (tmp_path / "envoy.yaml").write_text(ENVOY)
    volume = "./envoy.yaml:/etc/envoy/envoy.yaml:ro"
    application = load(tmp_path, "envoy", f"{{image: 'envoyproxy/envoy:v1.30', volumes: ['{volume}']}}")
    assert application.unsettable == {}
    after = rendered(application, upstream_limit=2048, lb_policy="RANDOM", buffer_limit_bytes=65536)
    [text] = after.files.values()
    meant = YAML(typ="safe").load(io.StringIO(text))["static_resources"]
    limits = {"max_connections": 2048, "max_pending_requests": 2048, "max_requests": 2048}
    common = {
        "lb_policy": "RANDOM",
        "per_connection_buffer_limit_bytes": 65536,
        "circuit_breakers": {"thresholds": [limits]},
    }
    assert meant["clusters"] == [{"name": "api", "connect_timeout": "1s", **common}, {"name": "web", **common}]
    assert meant["listeners"] == [{"name": "http", "per_connection_buffer_limit_bytes": 65536}]
    assert text.startswith("# of the team\n")
    assert "clusters:  # four blanks\n" in text
