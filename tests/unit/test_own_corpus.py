"""Compose files written after twenty public applications: understood, or refused with their place and a remedy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from framework.adopt.proposal import Proposal, application_text, propose, workload_text
from framework.compose import render
from framework.compose.completed import completed, with_built_images
from framework.compose.gate import Gate
from framework.compose.interpolation import escaped
from framework.config.application import load_application
from framework.config.compose_files import read_compose
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.errors import InputError
from framework.model import Application, Objective, Service, Workload
from framework.ports.compose import ComposeSource
from framework.testbeds.docker.builds import DockerBuilds
from framework.testbeds.docker.compose_config import ComposeConfig
from framework.testbeds.docker.run_directory import compose_file, write
from tests.own_applications import Images, configured, needs_compose
from tests.unit.test_own_rendering import networks, services

CORPUS = Path(__file__).parents[1] / "cases" / "corpus"
CASES = sorted(path.stem for path in CORPUS.glob("*.yaml"))
ENTRIES = {  # the service that clients call; "": there is none
    "elk": "elasticsearch", "external-network": "app", "ghost": "ghost", "gitea-postgres": "gitea", "gpu": "ollama",
    "host-network": "homeassistant", "hotrod": "hotrod", "immich": "immich-server", "keycloak": "keycloak",
    "mastodon": "web", "nextcloud-redis-mariadb": "nc", "nginx-flask-mysql": "proxy", "petclinic": "api-gateway",
    "plausible": "plausible", "prometheus-grafana": "", "react-express-mongodb": "frontend", "robot-shop": "web",
    "sock-shop": "edge-router", "superset": "superset", "traefik-dockersock": "reverse-proxy",
    "wordpress-mysql": "wordpress",
}  # fmt: skip
REFUSED = {  # the place that a study does not run, which the message names with its remedy
    "external-network": "networks.proxy.external",
    "gpu": "services.ollama.deploy.resources.reservations.devices",
    "host-network": "services.homeassistant.network_mode: host",
    "robot-shop": "services.mysql.cap_add: NET_ADMIN",
    "traefik-dockersock": "services.reverse-proxy.volumes: /var/run/docker.sock",
}


def proposed(directory: Path) -> Proposal:
    source = ComposeSource((directory / "compose.yaml",), directory)
    compose = read_compose(source, ComposeConfig())
    described = Application(
        name="corpus", directory=directory, compose=compose.document,
        services=tuple(Service(name, "", "local", tuned=False) for name in compose.document["services"]),
        hosts=("local",), workload=Workload(1.0, "poisson", "", {}), tracing=None, objective=Objective(),
        environments=compose.environments,
    )  # fmt: skip
    return propose(with_built_images(described, DockerBuilds()), load_service_types())


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shutil.copy(CORPUS / f"{request.param}.yaml", tmp_path / "compose.yaml")
    return tmp_path


@pytest.mark.parametrize("project", CASES, indirect=True)
def test_the_entry_is_found(project: Path, request: pytest.FixtureRequest) -> None:
    case = request.node.callspec.params["project"]
    entry = proposed(project).entry
    assert (entry.service if entry else "") == ENTRIES[case]


@needs_compose
@pytest.mark.parametrize("project", [case for case in CASES if ENTRIES[case]], indirect=True)
def test_it_is_rendered_as_compose_reads_it_or_refused_by_its_place(
    project: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    case = request.node.callspec.params["project"]
    proposal, target = proposed(project), project / "tailor"
    target.mkdir()
    text = application_text(proposal, ["../compose.yaml"], [], [])
    if not proposal.types:
        pytest.skip("no service of a known type: nothing can be tuned")
    (target / "application.yaml").write_text(text)
    (target / "workload.yaml").write_text(workload_text(proposal))
    types = load_service_types()
    application = completed(load_application(target, ComposeConfig()), types, DockerBuilds(), Images())
    if case in REFUSED:
        with pytest.raises(InputError) as error:
            Gate().application(application)
        assert REFUSED[case] in str(error.value)
        assert "allow it: TAILOR_ALLOW" in str(error.value)
        return
    space = search_space(application, types, cores=4, memory_mib=16_384)
    deployment = render(
        application, resolved(types, cores=4, memory_mib=16_384), space.default(), project="p", labels={}
    )
    (document,) = deployment.documents.values()
    own = tmp_path / "own"
    admitted = Gate().deployment(deployment, document, own)
    write(own, escaped(admitted.document), deployment.files, admitted.files)
    theirs = configured(project)
    for name in proposal.left_out:
        del theirs["services"][name]
        for service in theirs["services"].values():
            (service.get("depends_on") or {}).pop(name, None)
    ours = configured(own, "-f", str(compose_file(own)))
    assert services(ours) == services(theirs)
    assert {n: networks(s) for n, s in ours["services"].items()} == {
        n: networks(s) for n, s in theirs["services"].items()
    }
