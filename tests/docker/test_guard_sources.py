"""Sources of tail latencies beside the load generator's own measurement: the search, a real Jaeger, a Prometheus."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from framework.bootstrap.adapters import opened
from framework.bootstrap.guarding import plan_of
from framework.bootstrap.storage import SystemClock
from framework.config.settings import Settings
from framework.errors import TailorError
from framework.load.container import ContainerLoad
from framework.load.live import LiveLoad
from framework.model import Running
from framework.telemetry.latency import latency_source
from framework.testbeds.docker.side_containers import DockerSideContainers
from framework.use_cases.guard import LoadShape, deployed

ROOT = Path(__file__).resolve().parents[2]
RATE_RPS = 30.0
PATIENCE_S = 90.0
PROMETHEUS = "tailor-test/prometheus:1"
DOCKERFILE = (
    "FROM debian:bookworm-slim\n"
    "RUN for n in 1 2 3 4 5; do apt-get update && apt-get install -y --no-install-recommends prometheus && exit 0; "
    "sleep 5; done; exit 1\n"
)

pytestmark = pytest.mark.docker


def docker(*words: str, given: str = "") -> str:
    ran = subprocess.run(["docker", *words], capture_output=True, text=True, check=True, input=given)
    return ran.stdout.strip()


@contextmanager
def prometheus(running: Running, directory: Path) -> Iterator[str]:
    """Run a Prometheus that scrapes the search each second; yields its address."""
    docker("build", "-t", PROMETHEUS, "-", given=DOCKERFILE)
    scrapes = [{"job_name": "search", "static_configs": [{"targets": ["search:8080"]}]}]
    (directory / "prometheus.yaml").write_text(
        json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes})
    )
    directory.chmod(0o755)
    name = f"{running.deployment.project}-prometheus"
    docker(
        "run", "-d", "--name", name, "--network", running.network, "-v", f"{directory}:/etc/here:ro", "--user", "root",
        PROMETHEUS, "prometheus", "--config.file=/etc/here/prometheus.yaml", "--storage.tsdb.path=/tmp/data",
    )  # fmt: skip
    try:
        address = docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", name)
        yield f"http://{address}:9090"
    finally:
        docker("rm", "-f", "-v", name)


def reading(text: str, least_rps: float = 0.5 * RATE_RPS) -> Mapping[str, float]:
    """Return the first reading of a source with so many requests a second."""
    until = time.monotonic() + PATIENCE_S
    problem = "no reading"
    while time.monotonic() < until:
        try:
            sensor = latency_source(text, 0.95)
        except TailorError as error:
            problem = str(error)  # it has not seen a request yet
            time.sleep(1.0)
            continue
        try:
            while time.monotonic() < until:
                readings = sensor.read(time.monotonic())
                if readings.get("rate_rps", 0.0) > least_rps:
                    return readings
                time.sleep(0.2)
        finally:
            sensor.close()
    pytest.fail(f"{text}: {problem}")


@contextmanager
def users(address: str) -> Iterator[list[float]]:
    """Search as users do, whose requests begin traces; yields the latencies [ms] so far, the newest last."""
    latencies, ended = list[float](), threading.Event()

    def search() -> None:
        while not ended.wait(1 / RATE_RPS):
            began = time.monotonic()
            with urllib.request.urlopen(f"http://{address}:8080/search?ranks=1,300,7", timeout=10) as reply:
                reply.read()
            latencies.append(1e3 * (time.monotonic() - began))

    thread = threading.Thread(target=search)
    thread.start()
    try:
        yield latencies
    finally:
        ended.set()
        thread.join()


def test_sources_tell_what_clients_measure(tmp_path: Path) -> None:
    settings = Settings.from_environment({**os.environ, "TAILOR_HOME": str(tmp_path / "home")})
    backends = opened(settings).backends
    application = backends.application(ROOT / "apps" / "search")
    clock = SystemClock()
    with deployed(backends, application, lambda text: None) as running, prometheus(running, tmp_path) as address:
        search, jaeger = (running.containers[name].address for name in ("search", "jaeger"))
        with LiveLoad(ContainerLoad(application, DockerSideContainers()), clock) as load:
            load.start(plan_of(application, LoadShape(RATE_RPS, seconds=600.0)), running)
            for text in (
                f"metrics[window=5]=http://{search}:8080/metrics#search_request_duration_seconds",
                f'prometheus[window=10]={address}#search_request_duration_seconds{{job="search"}}',
            ):
                readings = reading(text)
                load.check()
                p95 = load.latencies(clock.monotonic(), 30.0).quantile_ms(0.95)
                assert p95 is not None
                assert readings["rate_rps"] < 2 * RATE_RPS, text
                # Clients' latencies have the network too, and a histogram tells them to a bucket.
                assert 0 < readings["latency_ms"] < 5 * p95 + 20, text
        with users(search) as latencies:
            readings = reading(f"jaeger=http://{jaeger}:16686#search", least_rps=1.0)
        assert readings["rate_rps"] < 2 * RATE_RPS
        assert 0 < readings["latency_ms"] <= max(latencies)
