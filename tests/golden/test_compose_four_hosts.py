"""Front end, logic, back end and monitoring on four hosts with an overlay network: the documents, word for word.

``python -m tests.golden.test_compose_four_hosts`` writes them anew; look at the difference before committing it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from framework.compose import as_designed, difference, render
from framework.config.application import load_application
from framework.config.configuration_file import load_configuration
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.config.writing import to_yaml
from framework.errors import MissingPrerequisite
from framework.model import Application, Deployment
from framework.testbeds.docker.compose_command import ComposeCommand

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "tests" / "cases" / "good" / "shop"
GOLDEN = Path(__file__).parent / "four_hosts"
TYPES = resolved(load_service_types(), cores=4, memory_mib=8192)
HOSTS = ("frontend", "logic", "backend", "monitoring")
APPLICATIONS = [SHOP, *sorted(path.parent for path in (ROOT / "apps").glob("*/application.yaml"))]


def deployed(directory: Path, *, tuned: bool) -> Deployment:
    application = load_application(directory)
    space = search_space(application, TYPES, cores=4, memory_mib=8192)
    configuration = space.default()
    if tuned:
        configuration = load_configuration(directory / "configurations" / "tuned.yaml", space)
    return render(
        application, TYPES, configuration, project="golden", labels={"tailor.study": "golden", "tailor.trial": "3"},
        placement=as_designed(application), network="overlay",
    )  # fmt: skip


def texts(deployment: Deployment, application: Application) -> dict[str, str]:
    """File name -> text, without the place of this checkout."""
    documents = {f"{host}.yaml": to_yaml(document) for host, document in deployment.documents.items()}
    found = {
        **documents,
        **deployment.files,
        "difference.diff": difference(deployed(SHOP, tuned=False), deployment, to_yaml),
    }
    return {name: text.replace(str(application.directory), "<application>") for name, text in found.items()}


def expected() -> Mapping[str, str]:
    return {path.relative_to(GOLDEN).as_posix(): path.read_text() for path in GOLDEN.rglob("*") if path.is_file()}


def test_documents_files_and_difference() -> None:
    deployment = deployed(SHOP, tuned=True)
    assert tuple(deployment.documents) == HOSTS
    assert texts(deployment, load_application(SHOP)) == expected()


@pytest.mark.parametrize("directory", APPLICATIONS, ids=lambda path: path.name)
def test_compose_accepts_each_document(directory: Path, tmp_path: Path) -> None:
    try:
        compose = ComposeCommand.find()
    except MissingPrerequisite as missing:
        if os.environ.get("TAILOR_REQUIRE_DOCKER") == "1":
            raise
        pytest.skip(str(missing))
    deployment = deployed(directory, tuned=directory == SHOP)
    for name, text in deployment.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for host, document in deployment.documents.items():
        file = tmp_path / f"{host}.yaml"
        file.write_text(to_yaml(document))
        checked = subprocess.run(
            [*compose.argv, "--profile", "tailor", "-p", "golden", "-f", str(file), "config"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert checked.returncode == 0, (host, checked.stderr)
        assert all(f"\n  {name}:\n" in checked.stdout for name in document["services"])
        assert "external: true" in checked.stdout


def write() -> None:
    for name, text in texts(deployed(SHOP, tuned=True), load_application(SHOP)).items():
        (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
        (GOLDEN / name).write_text(text)


if __name__ == "__main__":
    write()
