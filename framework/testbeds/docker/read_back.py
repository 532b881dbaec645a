"""Values that running services have: parameters read back after a deployment, and the statistics of service types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from framework.config.key_paths import NoPlace
from framework.config.keyed_files import values_at
from framework.errors import DeploymentFailed, ParameterNotApplied
from framework.model import Container, Expectation, Passed, ServiceType, Told
from framework.model.agreement import agrees
from framework.testbeds.docker import probes
from framework.testbeds.docker.container_files import text_of
from framework.testbeds.docker.engine import Engine


def read_back(
    engine: Engine, expectations: Sequence[Expectation], containers: Mapping[str, Container]
) -> tuple[str, ...]:
    """Read every parameter back, from every replica.

    Returns the parameters (service.parameter) that no server told: that they were passed is seen in their container.
    Raises ParameterNotApplied for one that did not take effect.
    """
    passed: dict[str, None] = {}
    for replicas in _replica_sets(containers):
        wanted = [expected for expected in expectations if expected.service in replicas or replicas is containers]
        asked = [(expected.service, expected.probe) for expected in wanted if expected.probe is not None]
        answers = probes.answers(engine, replicas, asked)
        for expected in wanted:
            problem = _told(expected, answers)
            if problem is None:
                continue
            if expected.passed is not None and not _seen(engine, replicas, expected.service, expected.passed):
                told = f"nothing: {problem}; nor does the container show {expected.passed.text!r}"
                raise ParameterNotApplied(expected.service, expected.parameter, expected.value, told)
            if expected.passed is not None:
                passed[f"{expected.service}.{expected.parameter}"] = None
    return tuple(passed)


def _told(expected: Expectation, answers: Mapping[probes.Request, str | probes.NoAnswer]) -> str | None:
    """Return None where the server told the value, else why it cannot tell.

    Raises ParameterNotApplied where it has another value, or should have told.
    """
    if expected.probe is None:
        return "it has no read-back"
    answer = answers[probes.request(expected.service, expected.probe)]
    try:
        if isinstance(answer, probes.NoAnswer):
            raise answer
        value = probes.parse(expected.probe, answer, expected.value)
    except probes.NoAnswer as error:
        if expected.probe.optional or isinstance(error, probes.NoTool):
            return str(error)
        answered = f"nothing: {error}"
        raise ParameterNotApplied(expected.service, expected.parameter, expected.value, answered) from error
    if not agrees(expected.value, value):
        raise ParameterNotApplied(expected.service, expected.parameter, expected.value, value)
    return None


def _seen(engine: Engine, containers: Mapping[str, Container], service: str, passed: Passed) -> bool:
    """Return whether a container shows a value: in its variables, its command or a file.  Nothing runs inside it."""
    if passed.kind in ("resource", "live"):  # the engine took it, or the command ended with 0
        return True
    shows = passed.service or service
    if shows not in containers:
        return bool(passed.service)  # it has fewer replicas, and its first one was looked at
    container = containers[shows].id
    if passed.kind == "file":
        return _in_file(text_of(engine, container, passed.name) or "", passed)
    about = engine.inspect(container) or {}
    if passed.kind == "flag":
        return f" {passed.text} " in f" {' '.join([str(about.get('Path')), *(about.get('Args') or [])])} "
    variables = dict(str(item).partition("=")[::2] for item in (about.get("Config") or {}).get("Env") or [])
    return f" {passed.text} " in f" {variables.get(passed.name, '')} "


def _in_file(text: str, passed: Passed) -> bool:
    """Return whether a file has a value: in a line, or at each place that a key path selects."""
    if not passed.key:
        return any(passed.text == line.strip() for line in text.splitlines())
    try:
        return set(values_at(text, passed.format, passed.key)) == {passed.text}
    except NoPlace:
        return False


def values_of(
    engine: Engine, expectations: Sequence[Expectation], containers: Mapping[str, Container]
) -> dict[str, Told]:
    """Return ``service.parameter`` -> what its server tells now, of the first replica; no value has to agree."""
    asked = [(expected.service, expected.probe) for expected in expectations if expected.probe is not None]
    answers = probes.answers(engine, containers, asked)
    told: dict[str, Told] = {}
    for expected in expectations:
        name = f"{expected.service}.{expected.parameter}"
        container = containers.get(expected.service)
        seen = (
            expected.passed is not None
            and container is not None
            and _seen(engine, containers, expected.service, expected.passed)
        )
        if expected.probe is None:
            told[name] = Told(None, "nothing tells it", seen)
            continue
        answer = answers[probes.request(expected.service, expected.probe)]
        try:
            if isinstance(answer, probes.NoAnswer):
                raise answer
            told[name] = Told(probes.parse(expected.probe, answer, expected.value), "", seen)
        except probes.NoAnswer as error:
            bearable = expected.probe.optional or isinstance(error, probes.NoTool)  # a study bears no other
            silent = expected.probe.optional and not isinstance(error, probes.NoTool)
            told[name] = Told(None, "its server does not tell it" if silent else str(error), seen and bearable)
    return told


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
