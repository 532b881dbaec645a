"""The guides to load generators and trace formats: their examples are taken out, installed and run as they stand."""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framework.bench import Rig
from framework.bootstrap.storage import SystemClock
from framework.load.registry import GENERATORS
from framework.model import Deployment, Running
from framework.ports.testbed import Progress
from framework.testing.pretend import PretendMachine, larger_is_faster, pretend_application, pretend_kind, pretend_types
from framework.testing.testbed import GivenTestbed, LoadGeneratorContract
from optimizer.space import Configuration

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
LOAD, TRACES = GUIDES / "add-a-load-generator.md", GUIDES / "add-a-trace-format.md"


def blocks(guide: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", guide.read_text(), flags=re.MULTILINE | re.DOTALL)


def install(guide: Path, directory: Path) -> Path:
    """Lay the example out as an installer does; return its module."""
    project = tomllib.loads(blocks(guide, "toml")[0])["project"]
    [(group, entries)] = project["entry-points"].items()
    [module] = {value.partition(":")[0] for value in entries.values()}
    [code] = blocks(guide, "python")
    (directory / f"{module}.py").write_text(code)
    about = directory / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return directory / f"{module}.py"


@pytest.mark.parametrize("guide", [LOAD, TRACES], ids=["load", "traces"])
def test_an_example_passes_the_linter_and_the_strict_type_checker(guide: Path, tmp_path: Path) -> None:
    module = str(install(guide, tmp_path))
    configuration = str(ROOT / "pyproject.toml")
    for command in (["ruff", "check", "--config", configuration], ["mypy", "--config-file", configuration]):
        done = subprocess.run(
            [sys.executable, "-m", *command, module], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[int]:
    """Start a server on loopback; return its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield serving.server_address[1]
        serving.shutdown()
        thread.join()


class AtHome(PretendMachine):
    """A pretended machine whose containers are on this machine's loopback, with the real clock."""

    def deploy(self, deployment: Deployment, progress: Progress) -> Running:
        running = super().deploy(deployment, progress)
        there = {name: replace(container, address="127.0.0.1") for name, container in running.containers.items()}
        return replace(running, containers=there)


class TestPlainLoad(LoadGeneratorContract):
    """The guide's generator keeps the contract."""

    @pytest.fixture
    def given(self, tmp_path: Path, server: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[GivenTestbed]:
        install(LOAD, tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "tailor_plain_load", raising=False)
        application = replace(pretend_application(tmp_path), generator="plain")
        machine = AtHome(SystemClock(), larger_is_faster)
        kind = pretend_kind(machine)
        load = GENERATORS.get(application.generator)(application, None)  # type: ignore[arg-type]  # it needs none
        monkeypatch.setattr(sys.modules["tailor_plain_load"], "PORT", server)
        rigged = replace(kind, open=lambda application, types: Rig(machine, load, machine))
        configuration = Configuration({"cache.size": 10, "cache.policy": "a"})
        yield GivenTestbed(
            rigged,
            application,
            pretend_types(),
            "tailor-test",
            configuration,
            rate_rps=30.0,
            warmup_s=0.5,
            window_s=1.0,
        )
        monkeypatch.delitem(sys.modules, "tailor_plain_load", raising=False)


def test_the_example_of_a_format_is_analysed(tmp_path: Path) -> None:
    install(TRACES, tmp_path)
    rows = [f"t{n},1,,front,get,{1000 * n},300\nt{n},2,1,cache,read,{1000 * n + 100},100" for n in range(20)]
    (tmp_path / "spans.csv").write_text(
        "trace,span,parent,service,operation,start_us,duration_us\n" + "\n".join(rows) + "\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", "TAILOR_HOME": str(tmp_path / "home")}
    tailor = [sys.executable, "-c", "from framework.cli.main import main; main()"]
    done = subprocess.run(
        [*tailor, "analyze", str(tmp_path / "spans.csv"), "--format", "csv", "--json"],
        env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    services = {service["name"] for service in json.loads(done.stdout)["services"]}
    assert services == {"front", "cache"}
    unknown = subprocess.run(
        [*tailor, "analyze", str(tmp_path / "spans.csv"), "--format", "cvs"],
        env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert unknown.returncode == 2
    assert "unknown trace format 'cvs'; known: csv, jaeger, otlp, otlp-protobuf, zipkin" in " ".join(
        unknown.stderr.split()
    )
