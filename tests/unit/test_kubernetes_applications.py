"""Kubernetes manifests of whole applications, and the command that writes them."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from framework.compose import render
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.errors import InputError
from framework.kubernetes import Sources, manifests_of
from framework.report.export import BestOfStudy
from framework.report.manifests import export_manifests
from framework.testbeds.docker.compose_config import ComposeConfig
from optimizer.space import Configuration
from tests.kubernetes_manifests import objects, problems
from tests.own_applications import CASES, needs_compose, rendered
from tests.serving import serving

APPS = Path(__file__).parents[2] / "apps"
OURS = sorted(path.parent.name for path in APPS.glob("*/application.yaml"))
CORPUS = Path(__file__).parents[1] / "cases" / "corpus"


def best_of(name: str) -> BestOfStudy:
    types = load_service_types()
    application = load_application(APPS / name, ComposeConfig())
    space = search_space(application, types, cores=4, memory_mib=16_384)
    return BestOfStudy(application, resolved(types, cores=4, memory_mib=16_384), space.default(), space.default(), "s1")


@pytest.mark.parametrize("name", OURS)
def test_manifests_of_our_applications_fit_the_api(name: str, tmp_path: Path) -> None:
    whole = best_of(name)
    written = export_manifests(whole, tmp_path / "out")
    yaml = YAML(typ="safe")
    parsed = [
        item for file in written if file.startswith("manifests/") for item in yaml.load_all(tmp_path / "out" / file)
    ]
    assert problems(parsed) == []
    running = [n for n, entry in whole.application.compose["services"].items() if not entry.get("profiles")]
    assert sorted(i["metadata"]["name"] for i in parsed if i["kind"] == "Deployment") == sorted(running)
    assert {i["metadata"]["name"] for i in parsed if i["kind"] == "Service"} == set(running)
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "has not run them on a cluster" in readme
    assert str(APPS) not in "".join((tmp_path / "out" / file).read_text() for file in written if file != "changes.diff")


@needs_compose
@pytest.mark.parametrize("case", CASES)
def test_manifests_of_other_peoples_applications_fit_the_api(case: str) -> None:
    deployment = rendered(case)
    (document,) = deployment.documents.values()
    made = manifests_of("own", document, Sources(deployment.files, deployment.roots))
    assert problems(objects(made)) == []


@pytest.mark.parametrize("case", sorted(path.stem for path in CORPUS.glob("*.yaml")))
def test_compose_files_of_the_corpus_are_carried_over_or_refused_by_service(case: str) -> None:
    document = YAML(typ="safe").load(CORPUS / f"{case}.yaml")
    document = {key: value or {} for key, value in document.items()}
    made = manifests_of(case, document, Sources(roots=(CORPUS,)))
    assert problems(
        [item for item in objects(made) if "image" in str(item) or item["kind"] != "Deployment"]
    ) == [] or any(note.key == "build" for note in made.refused)
    assert all(note.service in document["services"] or not note.service for note in made.notes)


SPOILT: Mapping[str, Callable[[list[Any]], Any]] = {
    "a misspelt key": lambda items: _deployment(items)["spec"]["template"]["spec"]["containers"][0].update(imagee="x"),
    "a number as text": lambda items: _deployment(items)["spec"].update(replicas="two"),
    "no selector": lambda items: _deployment(items)["spec"].pop("selector"),
    "a variable that is a number": lambda items: _deployment(items)["spec"]["template"]["spec"]["containers"][0].update(
        env=[{"name": "A", "value": 1}]
    ),
    "another label": lambda items: _deployment(items)["spec"]["selector"]["matchLabels"].update(a="b"),
    "no volume": lambda items: _deployment(items)["spec"]["template"]["spec"].pop("volumes"),
    "no ConfigMap": lambda items: items.remove(next(item for item in items if item["kind"] == "ConfigMap")),
    "an object twice": lambda items: items.append(items[0]),
    "a name with an underscore": lambda items: items[0]["metadata"].update(name="a_b"),
}


def _deployment(items: list[Any]) -> Any:
    return next(item for item in items if item["kind"] == "Deployment" and item["metadata"]["name"] == "nginx")


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_spoilt_manifest_is_refused(spoil: Callable[[list[Any]], Any]) -> None:
    whole = best_of("url-shortener")
    deployment = render(whole.application, whole.types, whole.best, project="p", labels={})
    (document,) = deployment.documents.values()
    made = objects(manifests_of("shop", document, Sources(deployment.files, (whole.application.base,))))
    items = copy.deepcopy([dict(item) for item in made])
    assert problems(items) == []
    spoil(items)
    assert problems(items)


def test_the_same_document_gives_the_same_bytes(tmp_path: Path) -> None:
    whole = best_of("social-network")
    files = export_manifests(whole, tmp_path / "a")
    assert files == export_manifests(whole, tmp_path / "b")
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)


def test_a_tuned_value_is_in_the_manifests(tmp_path: Path) -> None:
    whole = best_of("url-shortener")
    name = "nginx.worker_processes"
    value = 3 if whole.default[name] != 3 else 2
    changed = Configuration({**whole.default, name: value})
    export_manifests(BestOfStudy(whole.application, whole.types, whole.default, changed, "s1"), tmp_path / "out")
    (config,) = [
        item for item in YAML(typ="safe").load_all(tmp_path / "out" / "manifests" / "nginx.yaml")
        if item["kind"] == "ConfigMap"
    ]  # fmt: skip
    assert f"worker_processes {value};" in config["data"]["nginx.conf"]


def test_the_export_refuses_and_leaves_out_when_told(tmp_path: Path) -> None:
    whole = best_of("url-shortener")
    services = whole.application.compose["services"]
    services = {**services, "nginx": {**services["nginx"], "pid": "host"}}
    application = replace(whole.application, compose={**whole.application.compose, "services": services})
    whole = replace(whole, application=application)
    with pytest.raises(InputError, match="nginx: pid"):
        export_manifests(whole, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    export_manifests(whole, tmp_path / "out", leave_out=True)
    assert "**nginx**: `pid`: left out" in (tmp_path / "out" / "README.md").read_text()
    with pytest.raises(InputError, match="not empty"):
        export_manifests(whole, tmp_path / "out")
    with pytest.raises(InputError, match="10Gi"):
        export_manifests(whole, tmp_path / "other", storage="much")


def test_a_study_is_exported_by_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path, monkeypatch) as here:
        study = here.launch()
        here.kept.worker.run(until_empty=True)
    environment = {"TAILOR_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(APPS.parent)}

    def tailor(*arguments: str) -> str:
        command = [sys.executable, "-c", "from framework.cli.main import main; main()", "export", *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    written = json.loads(tailor("k8s", study, "--output", "shop", "--storage", "2Gi", "--json"))["files"]
    assert written == sorted(
        str(p.relative_to(tmp_path / "shop")) for p in (tmp_path / "shop").rglob("*") if p.is_file()
    )
    yaml = YAML(typ="safe")
    made = [item for name in written if "manifests/" in name for item in yaml.load_all(tmp_path / "shop" / name)]
    assert problems(made) == []
    (claim,) = [item for item in made if item["kind"] == "PersistentVolumeClaim"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert f"study {study}" in (tmp_path / "shop" / "README.md").read_text()
    assert "study" in json.loads(tailor(study, "--json")), "without k8s, the whole study in one file"
