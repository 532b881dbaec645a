"""Spans of Tailor's own work arrive in a real Jaeger: by OTLP, and by jaeger-client's UDP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import docker
import httpx
import pytest

from framework.model import TuneRequest
from framework.ports.telemetry import SpanSink
from framework.telemetry import observed
from framework.telemetry.jaeger_client import JaegerClientSpans
from framework.telemetry.otlp import OtlpSpans
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from tests.fakes import pretend_tailor

pytestmark = pytest.mark.docker

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"
REQUEST = TuneRequest(SMALL, rate_rps=100.0, iterations=2, repetitions=2, pairs=3, drift_every=0, minimal=0)
IMAGE = "jaegertracing/jaeger:2.13.0"
READY_S = 60
CONFIGURATION = """
service:
  extensions: [jaeger_storage, jaeger_query, healthcheckv2]
  pipelines: {traces: {receivers: [otlp, jaeger], exporters: [jaeger_storage_exporter]}}
extensions:
  healthcheckv2: {use_v2: true, http: {endpoint: "0.0.0.0:13133"}}
  jaeger_storage: {backends: {spans: {memory: {max_traces: 1000}}}}
  jaeger_query: {storage: {traces: spans}, http: {endpoint: "0.0.0.0:16686"}}
receivers:
  otlp: {protocols: {http: {endpoint: "0.0.0.0:4318"}}}
  jaeger: {protocols: {thrift_compact: {endpoint: "0.0.0.0:6831"}}}
exporters: {jaeger_storage_exporter: {trace_storage: spans}}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Jaeger that takes both protocols."""
    file = tmp_path_factory.mktemp("jaeger") / "jaeger.yaml"
    file.write_text(CONFIGURATION)
    container = docker.from_env().containers.run(
        IMAGE, ["--config", "/etc/jaeger.yaml"], detach=True, volumes=[f"{file}:/etc/jaeger.yaml:ro"]
    )
    try:
        container.reload()
        ip = container.attrs["NetworkSettings"]["IPAddress"]
        _until(lambda: httpx.get(f"http://{ip}:13133/status", timeout=1).status_code == 200)
        yield ip
    finally:
        container.remove(force=True)


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            if done():
                return
        except httpx.HTTPError:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.2)


@pytest.fixture(params=["otlp", "jaeger-client"])
def sink(request: pytest.FixtureRequest, address: str, monkeypatch: pytest.MonkeyPatch) -> SpanSink:
    monkeypatch.setenv("OTEL_SERVICE_NAME", f"tailor-{request.param}")
    if request.param == "otlp":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{address}:4318")
        return OtlpSpans()
    return JaegerClientSpans(f"{address}:6831", service=f"tailor-{request.param}")


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # jaeger-client leaves a socket to the garbage collector
def test_a_study_can_be_looked_at_in_jaeger(
    sink: SpanSink, address: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    machine = PretendMachine(VirtualClock(), lambda configuration: 10.0, noise=0.01)
    tailor, _ = pretend_tailor(tmp_path, machine, observed=partial(observed, [sink]))
    study = tailor.studies.run(tailor.studies.create(REQUEST).id, lambda event: None)
    trials = tailor.store.trials(study.id)
    wanted = sum(len(trial.measurements) for trial in trials)
    service = request.node.callspec.params["sink"]
    traces: list[Mapping[str, Any]] = []

    def arrived() -> bool:
        answer = httpx.get(
            f"http://{address}:16686/api/traces", params={"service": f"tailor-{service}", "limit": 5, "lookback": "1h"}
        )
        traces[:] = [trace for trace in answer.json()["data"] or () if _names(trace).count("repetition") == wanted]
        return bool(traces)

    _until(arrived)
    [trace] = traces
    names = _names(trace)
    assert names.count("study") == 1
    assert names.count("trial") == len(trials)
    assert {"render", "deploy", "load", "read", "evaluate", "ask", "tell"} <= set(names)
    roots = [span for span in trace["spans"] if not span["references"]]
    assert [span["operationName"] for span in roots] == ["study"]
    tags = {tag["key"]: tag["value"] for tag in roots[0]["tags"]}
    assert tags["study"] == study.id
    tailor.close()


def _names(trace: Mapping[str, Any]) -> list[str]:
    return [span["operationName"] for span in trace["spans"]]
