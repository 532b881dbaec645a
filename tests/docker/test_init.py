"""`tailor init` that is stopped or killed leaves nothing, or nothing that `tailor clean` does not find."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.testbeds.docker.builds import OWNER, DockerBuilds
from framework.testbeds.docker.cleanup import clean
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.owner import PROJECT
from framework.use_cases.adopt import project_of

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]

ROOT = Path(__file__).resolve().parents[2]
# A shell's background process ignores SIGINT, and what it starts does too.
TAILOR = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from framework.cli.main import main; main()",
]
COMPOSE = """\
services:
  web: {image: 'nginx:1.22', ports: ['80'], depends_on: [cache]}
  cache: {image: 'redis:7.0'}
"""


class Init:
    """A directory with an application, and a TAILOR_HOME."""

    def __init__(self, directory: Path) -> None:
        self.shop, self.home = directory / "shop", directory / "home"
        self.shop.mkdir()
        (self.shop / "compose.yaml").write_text(COMPOSE)
        self.project = project_of(self.home)

    def tailor(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "TAILOR_HOME": str(self.home), "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [*TAILOR, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def containers(self) -> list[str]:
        return [container.name for container in Engine().containers(f"{PROJECT}={self.project}")]

    def remove_built(self) -> None:
        """Remove the images that were built of this application, also those of a run that failed."""
        built = [name for name in DockerBuilds().kept() if name.startswith("tailor-built/shop-web:")]
        assert built
        for image in built:
            Engine().labelled.remove(image, OWNER)

    def deploying(self) -> subprocess.Popen[str]:
        process = self.tailor("init", "--yes", str(self.shop))
        deadline = time.monotonic() + 60
        while not self.containers():
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return process


@pytest.fixture
def init(tmp_path: Path) -> Iterator[Init]:
    made = Init(tmp_path)
    yield made
    clean(Engine(), made.project)


def test_ctrl_c_leaves_nothing(init: Init) -> None:
    process = init.deploying()
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert init.containers() == []
    assert [path.name for path in init.shop.iterdir()] == ["compose.yaml"]


def test_what_a_killed_one_leaves_is_cleaned(init: Init) -> None:
    process = init.deploying()
    process.kill()
    process.communicate()
    cleaning = init.tailor("clean")
    assert "container" in cleaning.communicate(timeout=60)[0]
    assert cleaning.returncode == 0
    assert init.containers() == []


def test_a_service_is_known_by_the_image_that_is_built_for_the_proof(init: Init) -> None:
    (init.shop / "compose.yaml").write_text("services: {web: {build: ., ports: ['80']}}\n")
    (init.shop / "Dockerfile").write_text(f"FROM nginx:1.22\nLABEL made={init.project}\n")
    done = init.tailor("init", "--yes", str(init.shop))
    said = done.communicate(timeout=150)[0]
    assert done.returncode == 0, said
    before, _, after = said.partition("say more:")
    assert "nginx" not in before
    assert "web  nginx certain: it runs nginx" in after
    assert "type: nginx" in (init.shop / "tailor" / "application.yaml").read_text()
    again = init.tailor("init", "--no-proof", str(init.shop))
    assert "web  nginx certain" in again.communicate(timeout=60)[0]  # the new files made no other image of it
    init.remove_built()


def test_a_service_is_known_by_what_runs_in_it(init: Init) -> None:
    (init.shop / "compose.yaml").write_text(
        "services: {web: {build: ., ports: ['80'], volumes: ['data:/data']}}\nvolumes: {data: }\n"
    )
    (init.shop / "Dockerfile").write_text(
        "FROM nginx:1.22\n"
        f"LABEL made={init.project}\n"
        "RUN printf '#!/bin/sh\\nexec nginx -g \"daemon off;\"\\n' > /begin && chmod +x /begin\n"
        'ENTRYPOINT ["/begin"]\n'
    )
    done = init.tailor("init", "--yes", str(init.shop))
    said = done.communicate(timeout=150)[0]
    assert done.returncode == 0, said
    before, _, after = said.partition("say more:")
    assert "The type of web is not known" in before
    assert "web  nginx certain: it runs nginx" in after
    assert "web.worker_connections" in after
    init.remove_built()
