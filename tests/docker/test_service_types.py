"""Every server type whose server installs here: deployed at its defaults and at other values, each value read back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.adopt.grades import rounds_of
from framework.compose import render
from framework.compose.completed import completed
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.errors import ParameterNotApplied
from framework.model import Application
from framework.testbeds.docker.builds import DockerBuilds
from framework.testbeds.docker.compose_config import ComposeConfig
from framework.testbeds.docker.image_reader import DockerImages
from framework.testbeds.docker.testbed import DockerTestbed
from optimizer.space import Configuration, SearchSpace
from tests.testbed_documents import new_project, quiet

pytestmark = pytest.mark.docker

SERVERS = Path(__file__).parents[1] / "cases" / "servers"
TYPES = load_service_types()
CORES, MEMORY_MIB = 2, 4096


@pytest.fixture
def testbed(tmp_path: Path) -> Iterator[tuple[DockerTestbed, str]]:
    made, project = DockerTestbed(tmp_path, TYPES), new_project()
    yield made, project
    made.clean(project, data=True)


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A server's folder, with the certificates that this machine was told to trust: its build downloads."""
    directory: Path = tmp_path / request.param
    shutil.copytree(SERVERS / request.param, directory)
    trusted = os.environ.get("SSL_CERT_FILE") or os.environ.get("PIP_CERT") or os.environ.get("REQUESTS_CA_BUNDLE")
    if trusted and Path(trusted).is_file():
        shutil.copy(trusted, directory / "certificates.crt")
    return directory


def read(case: Path) -> Application:
    return completed(load_application(case, ComposeConfig()), TYPES, DockerBuilds(), DockerImages())


def space_of(application: Application) -> SearchSpace:
    """Return the space of all parameters, those too that weaken something."""
    weaker = {p.name for service in application.services if service.type
              for p in TYPES[service.type].parameters if p.weakens != "nothing"}  # fmt: skip
    return search_space(application, TYPES, cores=CORES, memory_mib=MEMORY_MIB, allow_weaker=weaker)


@pytest.mark.parametrize("case", sorted(path.parent.name for path in SERVERS.glob("*/application.yaml")), indirect=True)
def test_every_value_reaches_the_server(case: Path, testbed: tuple[DockerTestbed, str]) -> None:
    """A value that the server does not have fails the deployment, by the parameter's name."""
    engine, project = testbed
    engine.check(read(case))
    application = read(case)  # its image is here now
    types = resolved(TYPES, cores=CORES, memory_mib=MEMORY_MIB)
    space = space_of(application)
    default, rounds = space.default(), rounds_of(space)

    def deploy(configuration: Configuration) -> tuple[str, ...]:
        deployment = render(application, types, configuration, project=project, labels={})
        return engine.deploy(deployment, quiet).passed

    assert deploy(default) == ()
    passed = {name for others in rounds for name in deploy(others)}
    (service,) = (service for service in application.services if service.type)  # others, as a broker, only serve it
    told = {p.name for p in types[service.type].parameters if p.read_back is not None and not p.read_back.optional}
    assert not {name.rpartition(".")[2] for name in passed} & told, "the server tells these itself"
    assert {name for others in rounds for name in space if others[name] != default[name]} == set(space)


def test_an_option_that_wins_over_a_value_is_told(tmp_path: Path, testbed: tuple[DockerTestbed, str]) -> None:
    """-Xmx on a JVM's command line makes a share of the memory mean nothing."""
    engine, project = testbed
    case = tmp_path / "jvm-command-line"
    shutil.copytree(SERVERS / "jvm-command-line", case)
    (case / "compose.yaml").write_text("services: {server: {build: ., command: java -Xmx64m Server}}\n")
    application, types = read(case), resolved(TYPES, cores=CORES, memory_mib=MEMORY_MIB)
    engine.check(application)
    deployment = render(application, types, space_of(application).default(), project=project, labels={})
    with pytest.raises(ParameterNotApplied, match=r"max_ram_percentage.*-Xmx64m"):
        engine.deploy(deployment, quiet)
