"""Applications that other people have: each case of tests/cases/own does what its name promises."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from framework.compose.gate import CLOSED
from framework.config.application import is_application, load_application
from framework.errors import FileError, InputError, MissingPrerequisite
from framework.testbeds.docker.builds import DockerBuilds
from framework.testbeds.docker.compose_config import ComposeConfig
from tests.own_applications import (
    CASES,
    OWN,
    admitted,
    application_of,
    compose_v2,
    needs_compose,
    rendered,
    service_of,
    space_of,
)

PLAIN = ("mongo7", "redis-password", "bitnami", "volume-name", "nginx-user-tuned", "two-networks", "replicas")
RESOLVED = {
    "dotenv": "compose.yaml: .env gives it variables",
    "dotenv-required": "compose.yaml: .env gives it variables",
    "override-file": "compose.yaml: it is read together with compose.override.yaml",
    "include": "compose.yaml, line 1: include",
    "extends": "compose.yaml, line 2: extends",
}


# --------------------------------------------------------------------------- reading


@pytest.mark.parametrize("case", PLAIN)
def test_a_file_that_is_complete_needs_no_compose(case: str) -> None:
    application = load_application(OWN / case)
    assert application.compose_directory is None
    assert [service.name for service in application.services] == list(application.compose["services"])


@pytest.mark.parametrize(("case", "reason"), RESOLVED.items())
def test_what_only_compose_reads_needs_it(case: str, reason: str) -> None:
    with pytest.raises(MissingPrerequisite) as error:
        load_application(OWN / case)
    assert reason in error.value.missing
    assert "make compose" in error.value.remedy


def test_without_compose_the_variables_of_an_environment_file_stay_unknown() -> None:
    assert load_application(OWN / "env-file-gogc").environments["web"] == {}


@needs_compose
def test_variables_come_from_the_file_beside_the_compose_file() -> None:
    services = application_of("dotenv").compose["services"]
    assert services["web"]["image"] == "nginx:1.27"
    assert services["web"]["environment"] == {"PW": "s3cret-value"}
    assert application_of("dotenv-required").environments["web"] == {"PW": "geheim"}


@needs_compose
def test_a_required_variable_without_a_value_is_named_with_its_line(tmp_path: Path) -> None:
    for path in (OWN / "dotenv-required").iterdir():
        if path.name != ".env":
            (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / ".env").write_text("OTHER=1\n")
    with pytest.raises(FileError, match=r"compose\.yaml: line 2: found 'no value of PW \(give a password\)'"):
        load_application(tmp_path, ComposeConfig())


@needs_compose
def test_an_override_is_merged_as_compose_merges_it() -> None:
    services = application_of("override-file").compose["services"]
    assert services["web"]["environment"] == {"DB": "cache:6379"}
    assert services["cache"]["command"] == ["redis-server", "--appendonly", "yes"]


@needs_compose
def test_included_and_extended_services_are_there() -> None:
    assert application_of("include").compose["services"]["mq"]["image"] == "rabbitmq"
    assert application_of("extends").compose["services"]["web"]["image"] == "nginx"


@needs_compose
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("include: [../other.yaml]\nservices: {web: {image: a}}\n", "line 1: include[0]: found '../other.yaml'"),
        ("include: ['https://example.org/a.git']\nservices: {web: {image: a}}\n", "nothing is fetched from elsewhere"),
        ("include: ['${X}.yaml']\nservices: {web: {image: a}}\n", "a path without variables"),
        ("services: {web: {image: a, extends: {service: none}}}\n", "compose.yaml"),
        ("services: {web: {image: a, env_file: none.env}}\n", "none.env"),
        ("services: {web: {image: a, portz: [1], env_file: a.env}}\n", "line 1: services.web"),
    ],
)
def test_what_compose_refuses_names_the_file(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "application.yaml").write_text(
        (OWN / "mongo7" / "application.yaml").read_text().replace("cache", "web")
    )
    (tmp_path / "workload.yaml").write_text((OWN / "mongo7" / "workload.yaml").read_text())
    (tmp_path / "a.env").write_text("A=1\n")
    (tmp_path / "compose.yaml").write_text(text)
    with pytest.raises(FileError) as error:
        load_application(tmp_path, ComposeConfig())
    assert says in str(error.value)


@needs_compose
def test_a_variable_of_this_process_is_passed_on_only_where_the_operator_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (OWN / "dotenv").iterdir():
        (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / ".env").write_text("PW=x\n")
    monkeypatch.setenv("V", "1.26")
    with pytest.raises(FileError, match=r"the variable V, which is set here and not passed on.*TAILOR_VARIABLES=V"):
        load_application(tmp_path, ComposeConfig())
    passed = load_application(tmp_path, ComposeConfig(("V",)))
    assert passed.compose["services"]["web"]["image"] == "nginx:1.26"


@needs_compose
def test_numbers_that_readers_dispute_are_read_as_compose_reads_them(tmp_path: Path) -> None:
    (tmp_path / "application.yaml").write_text((OWN / "mongo7" / "application.yaml").read_text())
    (tmp_path / "workload.yaml").write_text((OWN / "mongo7" / "workload.yaml").read_text())
    (tmp_path / "compose.yaml").write_text(
        "services:\n"
        "  web: {image: nginx, environment: {MODE: 0777, WORD: yes, LARGE: 1_000}}\n"
        "  cache: {image: mongo:7}\n"
        "  jaeger: {image: jaeger}\n"
    )
    with pytest.raises(MissingPrerequisite, match="line 2: a number to some readers, text to others"):
        load_application(tmp_path)
    environment = load_application(tmp_path, ComposeConfig()).environments["web"]
    assert environment == {"MODE": "511", "WORD": "yes", "LARGE": "1000"}


@needs_compose
def test_the_application_may_stand_away_from_the_compose_files(tmp_path: Path) -> None:
    project, own = tmp_path / "project", tmp_path / "project" / "tailor"
    own.mkdir(parents=True)
    for name in ("compose.yaml", "compose.override.yaml"):
        (project / name).write_text((OWN / "override-file" / name).read_text())
    text = (OWN / "override-file" / "application.yaml").read_text()
    (own / "application.yaml").write_text(text.replace("compose: compose.yaml", "compose: ../compose.yaml"))
    (own / "workload.yaml").write_text((OWN / "override-file" / "workload.yaml").read_text())
    application = load_application(own, ComposeConfig())
    assert application.compose["services"]["web"]["environment"] == {"DB": "cache:6379"}
    assert application.roots == (own, project)
    before = application.content_hash
    (project / "compose.override.yaml").write_text("services: {web: {environment: {DB: 'other:6379'}}}\n")
    assert load_application(own, ComposeConfig()).content_hash != before


# --------------------------------------------------------------------------- what the user has today


@pytest.mark.parametrize(
    ("case", "name", "value", "where"),
    [
        ("nginx-user-tuned", "web.worker_connections", 4096, "/etc/nginx/nginx.conf"),
        ("nginx-user-tuned", "web.worker_processes", 4, "/etc/nginx/nginx.conf"),
        ("nginx-oneline", "web.worker_connections", 1024, "/etc/nginx/nginx.conf"),
        ("gomaxprocs-env", "web.gomaxprocs", 4, "environment: GOMAXPROCS=4"),
    ],
)
def test_the_present_value_is_the_default(case: str, name: str, value: int, where: str) -> None:
    application = application_of(case)
    assert (application.present[name].value, application.present[name].where) == (value, where)
    assert space_of(case).default()[name] == value


@needs_compose
def test_the_present_value_may_stand_in_an_environment_file() -> None:
    default = space_of("env-file-gogc").default()
    assert (default["web.gc_percent"], default["web.gomaxprocs"]) == (400, 1)
    assert service_of(rendered("env-file-gogc"), "web")["environment"] == {"GOGC": "400", "GOMAXPROCS": "1"}
    changed = service_of(rendered("env-file-gogc", {"web.gc_percent": 200}), "web")
    assert changed["environment"] == {"GOGC": "200", "GOMAXPROCS": "1"}


def test_a_user_s_file_is_edited_where_the_directive_stands() -> None:
    changed = rendered("nginx-user-tuned", {"web.worker_connections": 2048})
    assert changed.files["files/web/etc-nginx-nginx.conf"] == (
        "worker_processes 4;\nevents {\n    worker_connections 2048;\n}\nhttp {\n    server { listen 80; }\n}\n"
    )
    inline = rendered("nginx-oneline", {"web.worker_connections": 2048})
    assert "events {\n    worker_connections 2048;\n}\n" in inline.files["files/web/etc-nginx-nginx.conf"]


def test_several_parameters_share_a_variable() -> None:
    changed = rendered("jvm-two-in-one-variable", {"web.max_ram_percentage": 50, "web.parallel_gc_threads": 3})
    options = service_of(changed, "web")["environment"]["JAVA_TOOL_OPTIONS"]
    assert options == "-XX:MaxRAMPercentage=50 -XX:ParallelGCThreads=3"


def test_a_flag_reaches_the_server_of_a_shell_s_line() -> None:
    changed = service_of(rendered("shell-exec-form", {"cache.hz": 50}), "cache")
    assert changed["command"] == ["redis-server --port 6379 --hz 50"]
    assert changed["entrypoint"] == ["sh", "-c"]


# --------------------------------------------------------------------------- arguments, tracing, data


def test_port_and_password_are_found_in_the_command() -> None:
    (expected,) = [e for e in rendered("redis-password").expectations if e.parameter == "hz"]
    assert expected.probe is not None
    assert expected.probe.port == 6380
    assert expected.probe.send.startswith("AUTH x\r\nCONFIG GET hz")


def test_a_password_is_found_in_the_environment_of_an_image_with_its_own_entry_point() -> None:
    (expected,) = [e for e in rendered("bitnami").expectations if e.parameter == "hz"]
    assert expected.probe is not None
    assert expected.probe.send.startswith("AUTH x\r\n")


def test_an_application_may_have_no_tracing() -> None:
    application = application_of("no-tracing")
    assert application.tracing is None
    assert application.peers == {}
    assert rendered("no-tracing").reached == ("backend",)


def test_the_load_generator_reaches_the_entry_and_the_tracing() -> None:
    assert rendered("two-networks").reached == ("proxy", "jaeger")


def test_an_image_without_a_name_is_named_by_its_content(tmp_path: Path) -> None:
    image = application_of("build-only").compose["services"]["web"]["image"]
    assert image.startswith("tailor-built/build-only-web:")
    assert application_of("build-only").compose["services"]["web"]["image"] == image


def test_tailor_s_own_files_are_no_sources_of_an_image(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shutil.copytree(OWN / "build-only", shop)
    application = load_application(shop, ComposeConfig())

    def name_with(own: Path) -> str:
        return DockerBuilds().image_name(replace(application, directory=own, compose_directory=shop), "web")

    beside, elsewhere = name_with(shop), name_with(tmp_path)
    (shop / "application.yaml").write_text("another")
    assert name_with(shop) == beside
    assert name_with(tmp_path) != elsewhere  # it is one of the sources, where Tailor's is another
    below = name_with(shop / "tailor")
    (shop / "tailor").mkdir()
    (shop / "tailor" / "application.yaml").write_text("another")
    assert name_with(shop / "tailor") == below
    (shop / "Dockerfile").write_text("FROM scratch")
    assert name_with(shop / "tailor") != below


def test_the_user_s_volume_and_directory_are_never_used(tmp_path: Path) -> None:
    volumes = admitted(rendered("volume-name"), tmp_path)["volumes"]
    assert volumes == {"data": {}}
    document = admitted(rendered("bind-data"), tmp_path)
    (mount,) = document["services"]["cache"]["volumes"]
    assert mount["type"] == "volume"
    assert mount["source"].startswith("copies-")


def test_another_program_s_application_yaml_is_passed_by() -> None:
    (found,) = (OWN / "spring-application-yaml").glob("**/application.yaml")
    assert not is_application(found)
    assert is_application(OWN / "mongo7" / "application.yaml")


@pytest.mark.parametrize("case", CASES)
def test_every_case_may_run(case: str) -> None:
    if case in (*RESOLVED, "env-file-gogc") and not compose_v2():
        pytest.skip("needs docker compose v2 (`make compose`)")
    try:
        CLOSED.application(application_of(case))
    except InputError as error:
        pytest.fail(str(error))
