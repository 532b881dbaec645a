"""A testbed of another package: found by its entry point, with no change in Tailor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from framework.testing.clock import VirtualClock
from framework.testing.testbed import DeploymentContract, GivenTestbed, LoadGeneratorContract, TraceReaderContract
from tests.plugins.echo.echo_testbed import echo_kind
from tests.unit.test_twin_testbed import SLICE, TYPES

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "tests" / "plugins" / "echo"
TAILOR = (sys.executable, "-c", "from framework.cli.main import main; main()")


class TestEcho(DeploymentContract, LoadGeneratorContract, TraceReaderContract):
    """The kit, as the package's own tests would run it."""

    @pytest.fixture
    def given(self, tmp_path: Path) -> GivenTestbed:
        return GivenTestbed(echo_kind(tmp_path, VirtualClock()), SLICE, TYPES, "tailor-test")


def tailor(home: Path, *arguments: str, plugin: Path = PLUGIN) -> subprocess.CompletedProcess[str]:
    given = {
        "TAILOR_HOME": str(home),
        "PYTHONPATH": os.pathsep.join((str(plugin), str(ROOT))),
        "DOCKER_HOST": "unix:///nonexistent.sock",
    }
    return subprocess.run([*TAILOR, *arguments], env=os.environ | given, capture_output=True, text=True, check=False)


def test_a_study_on_it(tmp_path: Path) -> None:
    asked = ("tune", str(SLICE.directory), "--testbed", "echo", "--optimizer", "random", "--iterations", "3",
             "--repetitions", "2", "--pairs", "6", "--duration", "4s", "--warm-up", "1s", "--minimal", "0",
             "--rate", "200")  # fmt: skip
    done = tailor(tmp_path / "home", *asked, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["testbed"], document["modelled"]) == ("echo", True)
    assert document["verdict"] is None, "whatever is configured, it takes as long: nothing beats the default"


def test_one_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    done = tailor(tmp_path / "home", "tune", str(SLICE.directory), "--testbed", "ecko")
    assert done.returncode == 2
    assert "'ecko'; known: auto, docker, echo, swarm, twin" in " ".join(done.stderr.split())


def test_one_that_cannot_be_loaded_is_in_nobodys_way(tmp_path: Path) -> None:
    broken = tmp_path / "plugin"
    about = broken / "broken-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[tailor.testbeds]\nbroken = nothing.there:kind\n")
    asked = ("tune", str(SLICE.directory), "--optimizer", "random", "--testbed")
    done = tailor(tmp_path / "home", *asked, "broken", plugin=broken)
    assert done.returncode == 3
    said = " ".join(done.stderr.split())
    assert "testbed broken (nothing.there:kind) cannot be loaded: ModuleNotFoundError" in said
    assert tailor(tmp_path / "home", "studies", plugin=broken).returncode == 0
