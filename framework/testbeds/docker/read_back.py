"""Values that running services have: parameters read back after a deployment, and the statistics of service types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from framework.errors import DeploymentFailed, ParameterNotApplied
from framework.model import Container, Expectation, ServiceType
from framework.testbeds.docker import probes
from framework.testbeds.docker.engine import Engine


def read_back(engine: Engine, expectations: Sequence[Expectation], containers: Mapping[str, Container]) -> None:
    """Read every parameter back, from every replica.  Raises ParameterNotApplied for one that did not take effect."""
    for replicas in _replica_sets(containers):
        wanted = [expected for expected in expectations if expected.service in replicas or replicas is containers]
        answers = probes.answers(engine, replicas, ((e.service, e.probe) for e in wanted))
        for expected in wanted:
            answer = answers[probes.request(expected.service, expected.probe)]
            try:
                if isinstance(answer, probes.NoAnswer):
                    raise answer
                value = probes.parse(expected.probe, answer, expected.value)
            except probes.NoAnswer as error:
                answered = f"nothing: {error}"
                raise ParameterNotApplied(expected.service, expected.parameter, expected.value, answered) from error
            if not probes.agrees(expected.value, value):
                raise ParameterNotApplied(expected.service, expected.parameter, expected.value, value)


def read_statistics(
    engine: Engine, types: Mapping[str, ServiceType], containers: Mapping[str, Container]
) -> dict[str, dict[str, float]]:
    """Read the statistics that the services' types define: service -> name -> number, summed over its replicas.

    Raises DeploymentFailed.
    """
    result: dict[str, dict[str, float]] = {}
    for replicas in _replica_sets(containers):
        asked = [
            (service, name, probe)
            for service in replicas
            if service in types
            for name, probe in types[service].statistics.items()
        ]
        answers = probes.answers(engine, replicas, ((service, probe) for service, _, probe in asked))
        for service, name, probe in asked:
            answer = answers[probes.request(service, probe)]
            try:
                if isinstance(answer, probes.NoAnswer):
                    raise answer
                number = float(probes.parse(probe, answer, 0.0))
            except (probes.NoAnswer, ValueError) as error:
                raise DeploymentFailed(f"cannot read its statistic {name}: {error}", service) from error
            numbers = result.setdefault(service, {})
            numbers[name] = numbers.get(name, 0.0) + number
    return result


def _replica_sets(containers: Mapping[str, Container]) -> Iterator[Mapping[str, Container]]:
    """Yield the first container of every service, then the second of each that has one, and so on."""
    yield containers
    for at in range(1, max((len(container.replicas) for container in containers.values()), default=1)):
        yield {name: first.replicas[at] for name, first in containers.items() if len(first.replicas) > at}
