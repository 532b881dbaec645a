"""A real load generator of somebody else, in a container of an image without a shell, drives another container."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framework.errors import LoadFailed
from framework.load.container import ContainerLoad
from framework.load.external import ExternalLoadGenerator
from framework.load.vegeta import Vegeta
from framework.model import Application, ExternalLoad, LoadPlan, LoadResult, Usage
from framework.objective.window import window_of
from framework.testbeds.docker.side_containers import DockerSideContainers
from tests.docker.test_load_container import APPLICATION, Target, docker
from tests.testbed_documents import new_project

pytestmark = pytest.mark.docker

MODULE = "github.com/tsenart/vegeta/v12@v12.12.0"
IMAGE = "i34-generators/vegeta:test"
SLOW_MS = 20
RATE_RPS = 40.0


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build vegeta from the Go module proxy, as an image with nothing else in it."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go here to build vegeta with")
    directory = tmp_path_factory.mktemp("vegeta")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(directory)}
    built = subprocess.run(["go", "install", MODULE], env=environment, cwd=directory, capture_output=True, text=True)
    if built.returncode != 0:
        pytest.skip(f"vegeta cannot be built here: {built.stderr.strip().splitlines()[-1]}")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(directory / "vegeta", "bin/vegeta")
    variables = ["--change", "ENV PATH=/bin"]
    subprocess.run(
        ["docker", "import", *variables, "-", IMAGE], input=packed.getvalue(), check=True, capture_output=True
    )
    yield IMAGE
    docker("image", "rm", IMAGE)


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target(new_project())
    yield made
    made.remove()


def counters() -> Usage:
    return Usage(time.time_ns(), {"target": time.process_time()}, time.process_time(), 0.0, None, 2, 0.0)


def application(directory: Path, image: str, targets: str) -> Application:
    (directory / "load").mkdir()
    (directory / "load" / "targets.txt").write_text(targets)
    return replace(
        APPLICATION, directory=directory, generator="vegeta", tracing=None,
        external=ExternalLoad(image=image, script="load/targets.txt", users=10),
    )  # fmt: skip


def drive(generator: ExternalLoadGenerator | ContainerLoad, target: Target, document: dict[str, object]) -> LoadResult:
    workload = replace(APPLICATION.workload, rate_rps=RATE_RPS, arrivals="constant", document=document)
    plan = LoadPlan(workload, RATE_RPS, 1.0, 4.0, 1, trace=False)
    return generator.run(plan, target.running, counters, lambda step: None)


def test_vegeta_drives_a_deployment_and_tells_every_request(image: str, target: Target, tmp_path: Path) -> None:
    targets = f"GET /slow/{SLOW_MS}\nGET http://target:8080/slow/{SLOW_MS}\nGET /status/503\n"
    shop = application(tmp_path, image, targets)
    result = drive(ExternalLoadGenerator(Vegeta(), shop, DockerSideContainers()), target, {})

    window = window_of(result)
    assert (result.loop, result.timing, result.cpu_s, result.spans_created) == ("open", "due", None, 0)
    assert window.requests == pytest.approx(RATE_RPS * 4, abs=1)
    assert window.failed == pytest.approx(window.requests / 3, abs=1)
    assert set(result.status.tolist()) == {200, 503}
    assert (window.latency_ms[np.isfinite(window.latency_ms)] >= SLOW_MS).all()
    assert window.lag_ms.min() >= 0
    assert result.usage_before is not None
    assert result.usage_after is not None
    assert result.usage_after.at_ns - result.usage_before.at_ns == 4 * 10**9
    assert target.left() == "", "its container is removed"


def test_a_generator_that_fails_says_why(image: str, target: Target, tmp_path: Path) -> None:
    shop = application(tmp_path, image, "this is no target\n")
    with pytest.raises(LoadFailed, match=r"(?s)vegeta ended with status 1.*bad method: this"):
        drive(ExternalLoadGenerator(Vegeta(), shop, DockerSideContainers()), target, {})
    assert target.left() == ""


def test_its_latencies_are_those_of_tailors_own_generator(image: str, target: Target, tmp_path: Path) -> None:
    """Both see a server that takes 20 ms; how far apart their p95 are is measured by experiments/generators."""
    shop = application(tmp_path, image, f"GET /slow/{SLOW_MS}\n")
    theirs = window_of(drive(ExternalLoadGenerator(Vegeta(), shop, DockerSideContainers()), target, {}))
    requests = [{"name": "slow", "weight": 1, "path": f"/slow/{SLOW_MS}"}]
    document = {"kind": "workload", "version": 1, "timeout_ms": 2000, "requests": requests}
    ours = window_of(drive(ContainerLoad(APPLICATION, DockerSideContainers()), target, document))
    assert (ours.requests, theirs.requests) == pytest.approx((RATE_RPS * 4, RATE_RPS * 4), abs=1)
    assert (ours.failed, theirs.failed) == (0, 0)
    fastest = np.array([window.latency_ms.min() for window in (ours, theirs)])
    assert (fastest >= SLOW_MS).all()
    assert (fastest < 2 * SLOW_MS).all(), "the least disturbed request of each"
