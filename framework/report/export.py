"""The best configuration as files that can be deployed without Tailor."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from framework.compose import difference, render
from framework.config.writing import to_yaml
from framework.errors import InputError
from framework.model import Application, Deployment, ServiceType, Study
from optimizer.space import Configuration

IMPORTED = "imported"  # below Tailor's home: descriptions of applications from elsewhere


def needs_application(study: Study, home: Path) -> None:
    """Raises InputError where a study came without its application: a description has no secrets and no mounts."""
    if study.directory.resolve().is_relative_to((home / IMPORTED).resolve()):
        raise InputError(
            f"study {study.id} came without its application, whose passwords and files are not here; "
            "allowed: a study that was imported with --application DIR"
        )


def export(
    application: Application,
    types: Mapping[str, ServiceType],
    default: Configuration,
    best: Configuration,
    study: str,
    directory: Path,
) -> Sequence[str]:
    """Write compose files, mounted files, the configuration and a diff against the default; returns their names.

    Raises InputError when the directory is not empty or cannot be written.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError(f"--output: found {directory}, which is not empty; allowed: a new or an empty directory")
    deployments = {
        name: render(application, types, configuration, project=application.name, labels={})
        for name, configuration in (("default", default), ("best", best))
    }
    files = _files(deployments["best"])
    files["configuration.yaml"] = to_yaml(
        {"kind": "configuration", "version": 1, "values": {k: v for k, v in best.items() if v != default[k]}}
    )
    files["changes.diff"] = difference(deployments["default"], deployments["best"], to_yaml)
    files["README.md"] = _readme(application, study)
    try:
        for name, text in files.items():
            write_text(directory / name, text)
    except InputError:
        shutil.rmtree(directory, ignore_errors=True)  # nothing half-written is left
        raise
    return sorted(files)


def said(study: Study) -> str:
    """A study's name wherever its numbers go: with a word where they were not measured."""
    return f"{study.id} (modelled, not measured)" if study.modelled else study.id


def write_text(path: Path, text: str) -> Path:
    """Write a file and the directories above it; returns its path.  Raises InputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _files(deployment: Deployment) -> dict[str, str]:
    documents = deployment.documents
    names = {host: "compose.yaml" if len(documents) == 1 else f"compose.{host}.yaml" for host in documents}
    return {names[host]: to_yaml(document) for host, document in documents.items()} | dict(deployment.files)


def _readme(application: Application, study: str) -> str:
    return (
        f"# {application.name}: the best configuration of study {study}\n\n"
        "Deploy it with `docker compose -f compose.yaml up -d` in this directory.\n\n"
        "- `compose.yaml`, `files/`: the whole application with this configuration\n"
        "- `configuration.yaml`: what differs from the default, for `tailor tune --initial` or `--versus`\n"
        "- `changes.diff`: the same as a difference of the rendered files\n"
    )
