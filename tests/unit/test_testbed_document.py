"""The Docker testbed's additions to a rendered document: labels, external volumes, a hash that ignores the trial."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.errors import DeploymentFailed
from framework.model import Deployment, Running, TuneRequest
from framework.ports.testbed import Progress
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from optimizer.space import Configuration
from tests.fakes import pretend_tailor
from tests.testbed_documents import wanted_of

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"


def source(**changes: Any) -> dict[str, Any]:
    return {
        "services": {
            "web": {"image": "nginx:1.22", "volumes": ["./files/web/nginx.conf:/etc/nginx/nginx.conf:ro"]},
            "db": {"image": "postgres:15", "labels": ["a=b"], "volumes": ["data:/d", "named:/n"]},
            "migrate": {"image": "postgres:15", "volumes": [{"type": "volume", "source": "data", "target": "/d"}]},
            "app": {"image": "app", "depends_on": {"migrate": {"condition": "service_completed_successfully"}}},
            "seed": {"image": "app", "profiles": ["tailor"]},
            **changes,
        },
        "volumes": {"data": None, "named": {"name": "mine"}},
    }


def deployment(document: dict[str, Any], trial: int = 1, text: str = "x") -> Deployment:
    labels = {"tailor.study": "s", "tailor.trial": str(trial), "tailor.repetition": "0"}
    files = {"files/web/nginx.conf": text}
    return Deployment("a", "tailor-s", Configuration({}), {"local": document}, files, labels=labels)


def test_everything_is_labelled_and_nothing_passed_in_is_changed() -> None:
    given = source()
    want = wanted_of(deployment(given))
    assert given == source()
    labels = want.document["services"]["db"]["labels"]
    assert "a" not in labels, "what other software looks for"
    assert labels["tailor.trial"] == "1"
    assert labels["tailor.project"] == "tailor-s"
    assert labels["tailor.definition"] == want.definitions["db"]
    assert want.document["networks"]["default"]["labels"] == {"tailor.study": "s", "tailor.project": "tailor-s"}


def test_services_volumes_and_their_users() -> None:
    want = wanted_of(deployment(source()))
    assert want.services == ("web", "db", "migrate", "app")
    assert want.volumes == {"data": "tailor-s_data", "named": "tailor-s_named"}, "whatever the file calls them"
    assert want.document["volumes"]["data"] == {"external": True, "name": "tailor-s_data"}
    assert want.document["volumes"]["named"] == {"external": True, "name": "tailor-s_named"}
    assert want.holders == {"data": ("db", "migrate"), "named": ("db",)}
    assert want.finite == {"web", "db", "migrate", "app", "seed"}, "nothing restarts them, and nobody asks them"


def test_what_is_asked_or_restarted_has_to_go_on() -> None:
    document = source(
        web={"image": "nginx:1.22", "restart": "always"}, app={"image": "app", "expose": ["80"]},
        db={"image": "postgres:15", "healthcheck": {"test": ["CMD", "true"]}},
    )  # fmt: skip
    asked = replace(deployment(document), reached=("migrate",))
    want = wanted_of(asked)
    assert want.finite == {"seed"}
    assert want.restarted == {"web"}
    assert want.replicas == {}
    assert wanted_of(deployment(source(web={"image": "a", "deploy": {"replicas": 3}}))).replicas == {"web": 3}


def test_the_definition_is_the_same_in_another_trial_only() -> None:
    first = wanted_of(deployment(source())).definitions
    assert wanted_of(deployment(source(), trial=2)).definitions == first
    mounted = wanted_of(deployment(source(), text="y")).definitions
    assert {name for name in first if mounted[name] != first[name]} == {"web"}
    changed = wanted_of(deployment(source(app={"image": "app", "environment": {"X": "1"}}))).definitions
    assert {name for name in first if changed[name] != first[name]} == {"app"}


def test_labels_of_a_rendered_trial_do_not_count() -> None:
    """Rendering writes the trial's labels into the services, too."""
    first, second = (
        wanted_of(deployment(source(app={"image": "app", "labels": {"tailor.trial": trial}}))).definitions["app"]
        for trial in ("1", "2")
    )
    assert first == second


@pytest.mark.parametrize("hosts", [(), ("a", "b")])
def test_one_host_only(hosts: tuple[str, ...]) -> None:
    many = replace(deployment(source()), documents={host: source() for host in hosts})
    with pytest.raises(DeploymentFailed, match="one compose document"):
        wanted_of(many)


def test_no_label_of_a_study_makes_a_definition_another_one(tmp_path: Path) -> None:
    """The deployments of a whole study: equal configurations are equal definitions, and there is one network."""

    class Keeping(PretendMachine):
        def deploy(self, deployment: Deployment, progress: Progress) -> Running:
            seen.append(deployment)
            return super().deploy(deployment, progress)

    seen: list[Deployment] = []
    tailor, _ = pretend_tailor(tmp_path, Keeping(VirtualClock(), lambda configuration: 10.0, noise=0.01))
    request = TuneRequest(SMALL, rate_rps=100.0, iterations=3, repetitions=2, pairs=3, drift_every=0, minimal=0)
    tailor.studies.run(tailor.studies.create(request).id, lambda event: None)
    tailor.close()
    deployed = [(deployment.configuration, wanted_of(deployment)) for deployment in seen]
    assert len({deployment.labels["tailor.trial"] for deployment in seen}) > 3
    assert len({str(want.document["networks"]) for _, want in deployed}) == 1
    for configuration in {measured for measured, _ in deployed}:
        assert len({str(want.definitions) for measured, want in deployed if measured == configuration}) == 1
