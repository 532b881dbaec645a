"""The best configuration as files that can be deployed without Tailor."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from framework.compose import difference, render
from framework.config.writing import to_yaml, write_text
from framework.errors import FieldName, InputError
from framework.model import Application, Deployment, ServiceType
from optimizer.space import Configuration


def export(
    application: Application,
    types: Mapping[str, ServiceType],
    default: Configuration,
    best: Configuration,
    study: str,
    directory: Path,
    dependent: Mapping[str, str] = MappingProxyType({}),
    changed: Sequence[str] = (),
) -> Sequence[str]:
    """Write compose files, mounted files, the configuration and a diff against the default; return their names.

    ``dependent``: parameters whose values follow from others -> from what; the configuration file says so.
    ``changed``: what the configuration changes, a line each, for the file that a person reads first.

    Raises InputError when the directory is not empty or cannot be written.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError(
            FieldName("directory"), f": found {directory}, which is not empty; allowed: a new or an empty directory"
        )
    deployments = {
        name: render(application, types, configuration, project=application.name, labels={})
        for name, configuration in (("default", default), ("best", best))
    }
    files = _files(deployments["best"])
    files["configuration.yaml"] = to_yaml(_configuration(default, best, dependent))
    files["changes.diff"] = difference(deployments["default"], deployments["best"], to_yaml)
    files["README.md"] = _readme(application, study, changed)
    try:
        for name, text in files.items():
            write_text(directory / name, text)
    except InputError:
        shutil.rmtree(directory, ignore_errors=True)  # do not leave an incomplete export
        raise
    return sorted(files)


def _configuration(default: Configuration, best: Configuration, dependent: Mapping[str, str]) -> dict[str, Any]:
    values = {name: value for name, value in best.items() if value != default[name]}
    sources = {name: f"derived: {dependent[name]}" for name in values if name in dependent}
    content: dict[str, Any] = {"kind": "configuration", "version": 1, "values": values}
    return content | ({"sources": sources} if sources else {})


def _files(deployment: Deployment) -> dict[str, str]:
    documents = deployment.documents
    names = {host: "compose.yaml" if len(documents) == 1 else f"compose.{host}.yaml" for host in documents}
    return {names[host]: to_yaml(document) for host, document in documents.items()} | dict(deployment.files)


def _readme(application: Application, study: str, changed: Sequence[str]) -> str:
    lines = "".join(f"- {line}\n" for line in changed)
    return (
        f"# {application.name}: the best configuration of study {study}\n\n"
        "Deploy it with `docker compose -f compose.yaml up -d` in this directory.\n\n"
        "- `compose.yaml`, `files/`: the whole application with this configuration\n"
        "- `configuration.yaml`: what differs from the default, for `tailor tune --initial` or `--versus`\n"
        "- `changes.diff`: the same as a difference of the rendered files\n"
        + (f"\nWhat it changes (gains of each by itself, with 95 % intervals):\n\n{lines}" if lines else "")
    )
