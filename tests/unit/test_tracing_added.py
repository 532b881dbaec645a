"""Tracing that Tailor adds: a Jaeger of its own, variables, a collector's further exporter, agents that make spans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from framework.compose import render
from framework.compose.agents import TARGET
from framework.compose.completed import completed
from framework.compose.gate import CLOSED
from framework.compose.tracing_notes import tracing_notes
from framework.config.added_tracing import ADDED, IMAGE, exports_to
from framework.config.application import load_application
from framework.config.collector_file import EXPORTER, with_exporter
from framework.config.compose_files import environment_of
from framework.config.knowledge import load_service_types, resolved
from framework.errors import FileError, InputError
from framework.model import Application, Deployment, ImageFacts
from framework.model.application import Tracing
from optimizer.space import Configuration

TYPES = resolved(load_service_types(), cores=4, memory_mib=8192)

COMPOSE = """\
services:
  web:
    image: nginx:1.25
    networks: [front]
  api:
    image: me/api:1
    networks: [front, back]
    environment: {OTEL_SERVICE_NAME: api, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4317'}
  jobs:
    image: me/jobs:1
    networks: [back]
    environment: [OTEL_TRACES_EXPORTER=none, JAVA_TOOL_OPTIONS=-Xss1m]
  collector:
    image: otel/opentelemetry-collector-contrib:0.130.0
    networks: [back]
    command: ["--config=/etc/collector.yaml"]
    volumes: ["./collector.yaml:/etc/collector.yaml:ro"]
networks: {front: {}, back: {}}
"""

COLLECTOR = """\
# ours
receivers: {otlp: {protocols: {grpc: {endpoint: "0.0.0.0:4317"}}}}
exporters:
  debug:   # prints
    verbosity: ${env:LEVEL}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [debug]}
    metrics: {receivers: [otlp], exporters: [debug]}
"""


def shop(directory: Path, tracing: str, compose: str = COMPOSE) -> Application:
    (directory / "compose.yaml").write_text(compose)
    (directory / "collector.yaml").write_text(COLLECTOR)
    (directory / "workload.yaml").write_text(
        "kind: workload\nversion: 1\ntimeout_ms: 1000\nrequests:\n  - {name: a, weight: 1, method: GET, path: /}\n"
    )
    (directory / "application.yaml").write_text(
        "kind: application\nversion: 1\nname: shop\nservices: {web: {type: nginx, tuned: false}}\n"
        f'workload: {{file: workload.yaml, rate_rps: 5, target: "http://web:80"}}\ntracing: {tracing}\n'
    )
    return load_application(directory)


def rendered(application: Application) -> tuple[dict[str, Any], Deployment]:
    deployment = render(application, TYPES, Configuration({}), project="p", labels={})
    (document,) = deployment.documents.values()
    services: dict[str, Any] = dict(document["services"])
    return services, deployment


# --------------------------------------------------------------------------- a Jaeger


def test_services_with_variables_export_to_a_jaeger_on_their_networks(tmp_path: Path) -> None:
    application = shop(tmp_path, "{add: jaeger}")
    services, deployment = rendered(application)
    assert services[ADDED]["image"] == IMAGE
    assert set(services[ADDED]["networks"]) == {"front", "back"}
    assert environment_of(services["api"]) == {
        "OTEL_SERVICE_NAME": "api", "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{ADDED}:4317",
        "OTEL_BSP_SCHEDULE_DELAY": "1000",
    }  # fmt: skip
    assert environment_of(services["jobs"]) == {
        "OTEL_TRACES_EXPORTER": "otlp", "JAVA_TOOL_OPTIONS": "-Xss1m", "OTEL_BSP_SCHEDULE_DELAY": "1000",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{ADDED}:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }  # fmt: skip
    assert "environment" not in services["web"]
    assert application.tracing is not None
    assert (application.tracing.service, application.tracing.export_delay_s) == (ADDED, 1.0)
    assert deployment.types[ADDED].name == "jaeger", "it is waited for as every Jaeger is"
    assert deployment.reached == ("web", ADDED)
    assert not CLOSED.admitted(application).refused
    assert f"api, jobs export spans to {ADDED}, which a study adds" in tracing_notes(application)
    assert (tmp_path / "compose.yaml").read_text() == COMPOSE


def test_without_variables_no_service_would_send_spans(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no service has OTEL_ variables.*instrument"):
        shop(tmp_path, "{add: jaeger}", "services: {web: {image: 'nginx:1.25'}}\n")


VARIABLES = st.dictionaries(
    st.sampled_from(
        [
            "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED",
        ]
    ),
    st.sampled_from(["http://c:4317", "http://c:4318", "http://c:4318/v1/traces", "grpc", "http/protobuf", "none", ""]),
)  # fmt: skip


@given(VARIABLES)
def test_spans_go_to_the_jaeger_by_a_port_that_speaks_the_protocol(today: dict[str, str]) -> None:
    after = {**today, **exports_to(Tracing("jaeger"), today)}
    traces = after.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    used = traces or after["OTEL_EXPORTER_OTLP_ENDPOINT"]
    protocol = after.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or after.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "grpc"
    assert used.startswith(f"http://jaeger:{4317 if protocol == 'grpc' else 4318}")
    assert used.endswith("/v1/traces") == bool(traces and protocol != "grpc")
    assert after.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
    assert after.get("OTEL_SDK_DISABLED", "") != "true"
    assert exports_to(Tracing("jaeger"), after).items() <= after.items(), "once more changes nothing"


@pytest.mark.parametrize(
    ("tracing", "text"),
    [
        ("{}", "one of service"),
        ("{add: jaeger, service: web}", "one of service"),
        ("{service: web, collector: collector}", "collector only with add"),
        ("{add: jaeger, collector_file: /x}", "collector_file only with collector"),
        ("{add: jaeger, api: zipkin}", "neither api nor port"),
        ("{add: zipkin}", "jaeger"),
        ("{service: web, api: zipkin, instrument: {api: java}}", "takes OTLP"),
        ("{add: jaeger, instrument: {ap: java}}", "api"),
        ("{add: jaeger, instrument: {api: rust}}", "java"),
        ("{add: jaeger, collector: colector}", "collector"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, tracing: str, text: str) -> None:
    with pytest.raises(FileError, match=text):
        shop(tmp_path, tracing)


def test_a_service_of_the_users_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="another name"):
        shop(tmp_path, "{add: jaeger}", COMPOSE.replace("  web:", f"  {ADDED}: {{image: x}}\n  web:"))


@pytest.mark.parametrize(
    ("tracing", "port", "propagation"),
    [
        ("{service: web}", 16686, ()),
        ("{service: web, api: zipkin}", 9411, ("w3c", "b3-multi")),
        ("{service: web, api: zipkin, propagation: [b3]}", 9411, ("b3",)),
        ("{service: web, api: tempo}", 3200, ()),
        ("{service: web, api: tempo, port: 80}", 80, ()),
    ],
)
def test_ports_and_formats_follow_the_api(
    tmp_path: Path, tracing: str, port: int, propagation: tuple[str, ...]
) -> None:
    read = shop(tmp_path, tracing).tracing
    assert read is not None
    assert (read.service, read.port, read.propagation, read.export_delay_s) == ("web", port, propagation, 5.0)
    assert read.joins is ("api" in tracing)


def test_exporters_that_wait_longer_are_waited_for_longer(tmp_path: Path) -> None:
    compose = COMPOSE.replace("OTEL_SERVICE_NAME: api", "OTEL_BSP_SCHEDULE_DELAY: 8000")
    for tracing in ("{service: web}", "{add: jaeger}", "{add: jaeger, collector: collector}"):
        read = shop(tmp_path, tracing, compose).tracing
        assert read is not None
        assert read.export_delay_s == 8.0


# --------------------------------------------------------------------------- a collector


def test_a_collector_gets_one_exporter_more_in_a_copy_of_its_file(tmp_path: Path) -> None:
    application = shop(tmp_path, "{add: jaeger, collector: collector}")
    services, deployment = rendered(application)
    (mount,) = services["collector"]["volumes"]
    name = mount.removeprefix("./").partition(":")[0]
    text = deployment.files[name]
    assert "# ours" in text
    assert "# prints" in text
    data = YAML(typ="safe").load(text)
    assert data["exporters"] == {
        "debug": {"verbosity": "${env:LEVEL}"},
        EXPORTER: {"endpoint": f"http://{ADDED}:4318", "tls": {"insecure": True}},
    }
    pipelines = data["service"]["pipelines"]
    assert pipelines["traces"]["exporters"] == ["debug", EXPORTER]
    assert pipelines["metrics"]["exporters"] == ["debug"]
    assert environment_of(services["api"])["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4317", "as it was"
    assert list(services[ADDED]["networks"]) == ["back"]
    assert (tmp_path / "collector.yaml").read_text() == COLLECTOR
    assert f"collector exports spans to {ADDED} too, in a copy of its configuration" in tracing_notes(application)


def test_spans_that_a_connector_hands_on_are_exported_once() -> None:
    text = """\
connectors: {forward: }
service:
  pipelines:
    traces/in: {receivers: [otlp], exporters: [forward]}
    traces/out: {receivers: [forward], exporters: [debug]}
    traces/other: {receivers: [zipkin]}
"""
    pipelines = YAML(typ="safe").load(with_exporter(text, "http://j:4318", "c"))["service"]["pipelines"]
    assert {name: pipeline.get("exporters") for name, pipeline in pipelines.items()} == {
        "traces/in": ["forward"], "traces/out": ["debug", EXPORTER], "traces/other": [EXPORTER],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("./collector.yaml:/etc/collector.yaml:ro", "data:/var", "mounts no such file"),
        ("--config=/etc/collector.yaml", '--config=/a.yaml", "--config=/b.yaml', "one absolute path"),
        ("--config=/etc/collector.yaml", "--config=env:SETTINGS", "one absolute path"),
    ],
)
def test_a_collector_whose_file_is_not_known(tmp_path: Path, old: str, new: str, text: str) -> None:
    compose = COMPOSE.replace(old, new) + "volumes: {data: {}}\n"
    with pytest.raises(InputError, match=text):
        rendered(shop(tmp_path, "{add: jaeger, collector: collector}", compose))


@pytest.mark.parametrize("text", ["a: [", "receivers: {}", "service: {pipelines: {metrics: {}}}", "- a"])
def test_a_file_without_a_pipeline_of_traces(text: str) -> None:
    with pytest.raises(InputError, match="c:"):
        with_exporter(text, "http://j:4318", "c")


# --------------------------------------------------------------------------- agents


class Images:
    """Images whose environment is known."""

    def facts(self, image: str) -> ImageFacts | None:
        return ImageFacts(environment={"NODE_OPTIONS": "--enable-source-maps", "PYTHONPATH": "/app"})

    def names(self, image: str, directory: str) -> list[str]:
        return []

    def text(self, image: str, path: str) -> str | None:
        return None


def test_agents_are_loaded_behind_what_services_and_images_have(tmp_path: Path) -> None:
    tracing = "{add: jaeger, instrument: {jobs: java, web: node, api: python}}"
    application = completed(shop(tmp_path, tracing), TYPES, None, Images(), tmp_path / "agents")
    services, deployment = rendered(application)
    values = {name: environment_of(services[name]) for name in ("jobs", "web", "api")}
    assert values["jobs"]["JAVA_TOOL_OPTIONS"] == f"-Xss1m -javaagent:{TARGET}/opentelemetry-javaagent.jar"
    assert values["web"]["NODE_OPTIONS"].startswith(f"--enable-source-maps --require {TARGET}/node_modules/")
    assert values["api"]["PYTHONPATH"] == f"{TARGET}/tailor:/app"
    for name, variables in values.items():
        assert variables["OTEL_SERVICE_NAME"] == name
        assert variables["OTEL_TRACES_EXPORTER"] == "otlp"
        assert variables["OTEL_METRICS_EXPORTER"] == "none"
        assert variables["OTEL_EXPORTER_OTLP_ENDPOINT"].startswith(f"http://{ADDED}:")
        (mount,) = (mount for mount in services[name]["volumes"] if mount["target"] == TARGET)
        assert (mount["type"], mount["read_only"]) == ("bind", True)
        assert Path(mount["source"]) in deployment.roots
    assert any("cost time there" in note for note in tracing_notes(application))


def test_a_service_reads_its_callers_format_or_doctor_says_so(tmp_path: Path) -> None:
    compose = COMPOSE.replace("OTEL_SERVICE_NAME: api", "JAEGER_AGENT_HOST: x")
    (note,) = tracing_notes(shop(tmp_path, "{service: web}", compose))
    assert "uber-trace-id" in note
    assert "tracing.propagation: [w3c, jaeger]" in note
    assert tracing_notes(shop(tmp_path, "{service: web, propagation: [w3c, jaeger]}", compose)) == ()
    b3 = COMPOSE.replace("OTEL_SERVICE_NAME: api", "OTEL_PROPAGATORS: 'b3multi,baggage'")
    (note,) = tracing_notes(shop(tmp_path, "{service: web}", b3))
    assert "[w3c, b3-multi]" in note
