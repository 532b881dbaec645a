"""Contract kits of testbeds, load generators, trace readers and isolation.

The kits share one deployment.  Where deploying takes long, put them into one class, with a fixture of scope "module".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pytest
from numpy.typing import NDArray

from framework.bench import Rig, TestbedKind
from framework.compose import render
from framework.model import Application, Deployment, LoadPlan, LoadResult, Running, ServiceType, Usage
from framework.model.spans import SpanTable
from framework.ports.isolation import Isolation
from optimizer.space import Configuration

MISSING = -2  # parent of a span whose parent was not read
SIGMAS = 6.0  # by which the number of requests may differ from its mean


def quiet(step: str) -> None:
    """Ignore a step: a ``Progress`` that does nothing."""


@dataclass
class GivenTestbed:
    """A testbed under test, with an application that it can run.

    ``project``: a name that no other test uses.
    """

    kind: TestbedKind
    application: Application
    types: Mapping[str, ServiceType]
    project: str
    configuration: Configuration = field(default_factory=lambda: Configuration({}))
    rate_rps: float = 50.0
    warmup_s: float = 1.0
    window_s: float = 3.0

    @cached_property
    def rig(self) -> Rig:
        """Testbed, load generator and trace reader, opened once."""
        return self.kind.open(self.application, self.types)

    def deployment(self, project: str | None = None) -> Deployment:
        """Render the application; parameters that the configuration does not name get the knowledge base's defaults."""
        project = project or self.project
        labels = {"tailor.study": project, "tailor.application": self.application.name}
        return render(self.application, self.types, self.configuration, project=project, labels=labels)

    @cached_property
    def running(self) -> Running:
        """The deployment, deployed once, with its dataset."""
        self.rig.testbed.load_dataset(self.application, self.deployment(), quiet)
        return self.rig.testbed.deploy(self.deployment(), quiet)

    def load(self, seed: int = 1) -> tuple[LoadResult, list[Usage]]:
        """Run the generator once; returns its result, and the CPU counters that it asked for."""
        plan = LoadPlan(self.application.workload, self.rate_rps, self.warmup_s, self.window_s, seed)
        usages: list[Usage] = []

        def usage() -> Usage:
            usages.append(self.rig.testbed.usage(self.running))
            return usages[-1]

        return self.rig.load.run(plan, self.running, usage, quiet), usages

    def clean(self) -> None:
        """Remove everything that the tests left."""
        self.rig.testbed.clean(self.project, data=True)


class DeploymentContract:
    """Tests of a testbed.  Fixture: ``given``, a GivenTestbed, cleaned afterwards."""

    def test_the_testbed_agrees_with_its_kind(self, given: GivenTestbed) -> None:
        testbed = given.rig.testbed
        assert testbed.name == given.kind.name
        assert testbed.modelled == given.kind.modelled
        assert given.kind.available(given.application)

    def test_its_machine_has_cores_memory_and_cpus(self, given: GivenTestbed) -> None:
        machine = given.rig.testbed.machine()
        assert machine.cores >= 1
        assert machine.memory_mib >= 1
        topology = given.kind.topology(given.application)
        assert topology.cpus
        assert len({cpu.number for cpu in topology.cpus}) == len(topology.cpus)

    def test_its_digest_is_text_and_stable(self, given: GivenTestbed) -> None:
        digest = given.kind.digest(given.application)
        assert all(isinstance(part, str) for item in digest.items() for part in item)
        assert given.kind.digest(given.application) == digest

    def test_a_deployment_runs(self, given: GivenTestbed) -> None:
        testbed = given.rig.testbed
        testbed.check(given.application)
        running = given.running
        wanted, deployed = given.deployment(), running.deployment
        assert (deployed.project, deployed.application, deployed.configuration) == (
            wanted.project, wanted.application, wanted.configuration,
        )  # fmt: skip
        assert wanted.labels.items() <= deployed.labels.items(), "the testbed may add labels"
        assert set(running.containers) <= {service.name for service in given.application.services}
        assert running.containers
        testbed.alive(running)
        testbed.check_itself("a service: its container ended")

    def test_counters_only_grow(self, given: GivenTestbed) -> None:
        first = given.rig.testbed.usage(given.running)
        second = given.rig.testbed.usage(given.running)
        assert set(first.cpu_s) == set(second.cpu_s)
        assert second.at_ns >= first.at_ns
        assert all(second.cpu_s[name] >= first.cpu_s[name] >= 0 for name in first.cpu_s)
        assert second.host_cpu_s >= first.host_cpu_s

    def test_deploying_again_keeps_the_services(self, given: GivenTestbed) -> None:
        before = given.running
        again = given.rig.testbed.deploy(given.deployment(), quiet)
        assert set(again.containers) == set(before.containers)
        given.rig.testbed.alive(again)
        given.running = again

    def test_cleaning_removes_one_project_only(self, given: GivenTestbed) -> None:
        testbed, running = given.rig.testbed, given.running
        other = f"{given.project}-other"
        testbed.deploy(given.deployment(other), quiet)
        try:
            testbed.alive(running)
        finally:
            testbed.clean(other, data=True)
        testbed.alive(running)
        assert other not in testbed.projects()
        assert not testbed.clean(other, data=True), "there is nothing left to remove"


class LoadGeneratorContract:
    """Tests of a load generator.  Fixture: ``given``, a GivenTestbed on which load can be driven."""

    def test_the_schedule_does_not_depend_on_answers(self, given: GivenTestbed) -> None:
        """The load is an open loop: its schedule follows from the seed alone."""
        first, _ = given.load(seed=1)
        again, _ = given.load(seed=1)
        other, _ = given.load(seed=2)
        assert len(first.due_ns) == len(again.due_ns)
        # To a microsecond: some generators count from their own start.
        np.testing.assert_allclose(_offsets(first), _offsets(again), atol=1e-6)
        np.testing.assert_array_equal(first.request_class, again.request_class)
        if given.application.workload.arrivals == "poisson":
            assert len(other.due_ns) != len(first.due_ns) or not np.allclose(_offsets(first), _offsets(other))

    def test_every_request_is_reported(self, given: GivenTestbed) -> None:
        load, _ = given.load()
        count = len(load.due_ns)
        columns = (load.sent_ns, load.end_ns, load.request_class, load.status, load.ok)
        assert {len(column) for column in columns} == {count}
        expected = given.rate_rps * (given.warmup_s + given.window_s)
        assert abs(count - expected) <= SIGMAS * np.sqrt(expected)
        assert (np.diff(np.sort(load.due_ns)) >= 0).all()
        answered = load.status != 0
        assert (load.sent_ns >= load.due_ns)[answered].all()
        assert (load.end_ns >= load.sent_ns)[answered].all()
        assert load.request_class.max(initial=0) < len(load.classes)
        assert not (load.ok & ~answered).any(), "a request without an answer cannot be ok"

    def test_counters_are_read_at_both_ends_of_the_window(self, given: GivenTestbed) -> None:
        load, usages = given.load()
        assert len(usages) == 2
        assert load.usage_before is not None
        assert load.usage_after is not None
        between_s = (load.usage_after.at_ns - load.usage_before.at_ns) / 1e9
        assert between_s == pytest.approx(given.window_s, abs=max(1.0, given.warmup_s + 0.5))


class TraceReaderContract:
    """Tests of a trace reader.  Fixture: ``given``, a GivenTestbed whose services are traced."""

    def test_traces_of_the_window_come_whole(self, given: GivenTestbed) -> None:
        reader = given.rig.traces
        before = reader.created(given.running)
        load, _ = given.load()
        start_ns, end_ns = load.edges_ns
        created = reader.created(given.running)
        expected = None if created is None or before is None else created + load.spans_created - before
        spans = reader.read(given.running, start_ns, end_ns, expected)
        _check(spans, start_ns, end_ns)
        in_window = (load.due_ns >= start_ns) & (load.due_ns < end_ns)
        assert abs(len(spans.traces) - int(in_window.sum())) <= 0.05 * in_window.sum() + 2

    def test_an_empty_window_has_no_traces(self, given: GivenTestbed) -> None:
        load, _ = given.load()
        long_ago = load.started_ns - 3_600 * 10**9
        assert len(given.rig.traces.read(given.running, long_ago, long_ago + 10**9, None)) == 0


class IsolationContract:
    """Tests of isolation.  Fixtures: ``given`` (GivenTestbed); ``isolation``; ``allowed``, reading a service's CPUs."""

    def test_services_move_and_go_on(
        self, given: GivenTestbed, isolation: Isolation, allowed: Callable[[Running, str], str]
    ) -> None:
        running, (service, *_) = given.running, sorted(given.running.containers)
        numbers = [cpu.number for cpu in given.kind.topology(given.application).cpus]
        for number in (numbers[0], numbers[-1]):
            isolation.pin(running, {service: str(number)})
            assert allowed(running, service) == str(number)
            given.rig.testbed.alive(running)


def _offsets(load: LoadResult) -> NDArray[np.float64]:
    """Return when requests were due, in seconds from the start, in order; shape (requests,)."""
    seconds: NDArray[np.float64] = (np.sort(load.due_ns) - load.started_ns) / 1e9
    return seconds


def _check(spans: SpanTable, start_ns: int, end_ns: int) -> None:
    """Assert that traces are whole: one root each, inside the window, and every parent in the same trace."""
    roots = spans.parent == -1
    assert np.bincount(spans.trace[roots], minlength=len(spans.traces)).tolist() == [1] * len(spans.traces)
    assert ((spans.start_ns[roots] >= start_ns) & (spans.start_ns[roots] < end_ns)).all()
    assert not (spans.parent == MISSING).any()
    children = spans.parent >= 0
    assert (spans.trace[children] == spans.trace[spans.parent[children]]).all()
    assert (spans.end_ns >= spans.start_ns).all()
