"""The contract kits on the testbeds that need no engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from framework.bootstrap.adapters import twin_kind
from framework.config.application import load_application
from framework.config.twin_file import twin_path, twin_text
from framework.model import Running
from framework.testing.clock import VirtualClock
from framework.testing.pretend import (
    PretendIsolation,
    PretendMachine,
    larger_is_faster,
    pretend_application,
    pretend_kind,
    pretend_types,
)
from framework.testing.testbed import (
    DeploymentContract,
    GivenTestbed,
    IsolationContract,
    LoadGeneratorContract,
    TraceReaderContract,
)
from optimizer.space import Configuration
from tests.unit.test_twin_testbed import SLICE, TWIN, TYPES


class TestPretendMachine(DeploymentContract, LoadGeneratorContract, TraceReaderContract, IsolationContract):
    """The pretended machine that other tests use keeps the contract too."""

    @pytest.fixture
    def given(self, tmp_path: Path) -> GivenTestbed:
        machine = PretendMachine(VirtualClock(), larger_is_faster)
        application = pretend_application(tmp_path)
        even = replace(application, workload=replace(application.workload, arrivals="constant"))
        configuration = Configuration({"cache.size": 10, "cache.policy": "a"})
        return GivenTestbed(pretend_kind(machine), even, pretend_types(), "tailor-test", configuration)

    @pytest.fixture
    def isolation(self) -> PretendIsolation:
        return PretendIsolation()

    @pytest.fixture
    def allowed(self, isolation: PretendIsolation) -> Callable[[Running, str], str]:
        return lambda running, service: isolation.allowed[service]


class TestTwin(DeploymentContract, LoadGeneratorContract, TraceReaderContract):
    """The twin of the url-shortener, made by hand."""

    @pytest.fixture
    def given(self, tmp_path: Path) -> GivenTestbed:
        directory = tmp_path / "url-shortener"
        shutil.copytree(SLICE.directory, directory)
        twin_path(directory).write_text(twin_text(TWIN))
        return GivenTestbed(twin_kind(VirtualClock()), load_application(directory), TYPES, "tailor-test")
