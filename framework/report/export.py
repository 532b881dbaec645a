"""The best configuration as files that can be deployed without Tailor."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from framework.compose import difference, render
from framework.compose.files import RENDERED
from framework.config.writing import to_yaml, write_text
from framework.errors import FieldName, InputError
from framework.model import Application, Deployment, ServiceType
from framework.report.bundle import COPIES, Bundle
from optimizer.space import Configuration


@dataclass(frozen=True, slots=True)
class BestOfStudy:
    """The best configuration of a study, named ``study``, with what its files are made of; see ``export``."""

    application: Application
    types: Mapping[str, ServiceType]
    default: Configuration
    best: Configuration
    study: str
    dependent: Mapping[str, str] = field(default_factory=dict)
    changed: Sequence[str] = ()


def check_empty(directory: Path) -> None:
    """Raise InputError unless a directory is new or empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError(
            FieldName("directory"), f": found {directory}, which is not empty; allowed: a new or an empty directory"
        )


def export(
    application: Application,
    types: Mapping[str, ServiceType],
    default: Configuration,
    best: Configuration,
    study: str,
    directory: Path,
    dependent: Mapping[str, str] = MappingProxyType({}),
    changed: Sequence[str] = (),
    *,
    whole: bool = True,
) -> Sequence[str]:
    """Write compose files, mounted files, the configuration and a diff against the default; return their names.

    ``dependent``: parameters whose values follow from others -> from what; the configuration file says so.
    ``changed``: what the configuration changes, a line each, for the file that a person reads first.  ``whole``: the
    user's files that the documents name are copied too, so that it can be started on another machine.

    Raises InputError when the directory is not empty or cannot be written.
    """
    check_empty(directory)
    deployments = {
        name: render(application, types, configuration, project=application.name, labels={})
        for name, configuration in (("default", default), ("best", best))
    }
    bundle = Bundle(application.base, application.roots)
    documents = deployments["best"].documents
    if whole:
        documents = {host: bundle.document(document) for host, document in documents.items()}
    files = _files(application.name, study, deployments["best"], documents, bundle)
    files["configuration.yaml"] = to_yaml(configuration_document(default, best, dependent))
    files["changes.diff"] = difference(deployments["default"], deployments["best"], to_yaml)
    where = "here or on another machine" if whole else "where the application's own files are"
    files["README.md"] = _readme(application, study, where, changed, list(files), bundle)
    try:
        for name, text in files.items():
            write_text(directory / name, text)
        bundle.write(directory)
    except InputError:
        shutil.rmtree(directory, ignore_errors=True)  # do not leave an incomplete export
        raise
    return sorted([*files, *bundle.copied])


def configuration_document(default: Configuration, best: Configuration, dependent: Mapping[str, str]) -> dict[str, Any]:
    """Return a configuration file of what differs from the default."""
    values = {name: value for name, value in best.items() if value != default[name]}
    sources = {name: f"derived: {dependent[name]}" for name in values if name in dependent}
    content: dict[str, Any] = {"kind": "configuration", "version": 1, "values": values}
    return content | ({"sources": sources} if sources else {})


def _files(
    name: str, study: str, deployment: Deployment, documents: Mapping[str, Mapping[str, Any]], bundle: Bundle
) -> dict[str, str]:
    """Return the texts of the documents, each with what its reader has to know first, and of the rendered files."""
    names = {host: "compose.yaml" if len(documents) == 1 else f"compose.{host}.yaml" for host in documents}
    head = [f"{name} with the best configuration of study {study}.", *bundle.instructions]
    written = {
        names[host]: _comments([*head, f"Start it: docker compose -f {names[host]} up -d"]) + to_yaml(document)
        for host, document in documents.items()
    }
    return written | dict(deployment.files)


def _comments(lines: Sequence[str]) -> str:
    return "".join(f"# {line}\n" for line in lines)


def _readme(
    application: Application, study: str, where: str, changed: Sequence[str], names: Sequence[str], bundle: Bundle
) -> str:
    documents = [name for name in names if name.startswith("compose.")]
    there = [f"- `{name}`: the application with this configuration\n" for name in documents]
    if any(name.startswith(f"{RENDERED}/") for name in names):
        there.append(f"- `{RENDERED}/`: configuration files of servers, changed by it\n")
    if bundle.copied:
        there.append(f"- `{COPIES}/`: copies of the application's own files that it needs\n")
    commands = "".join(f"    docker compose -f {name} up -d\n" for name in documents)
    first = "".join(f"- {line}\n" for line in bundle.instructions)
    lines = "".join(f"- {line}\n" for line in changed)
    return (
        f"# {application.name}: the best configuration of study {study}\n\n"
        f"Deploy it, in this directory, {where}:\n\n{commands}\n"
        + (f"Before that:\n\n{first}\n" if first else "")
        + "".join(there)
        + "- `configuration.yaml`: what differs from the default, for `tailor tune --initial` or `--versus`\n"
        "- `changes.diff`: the same as a difference of the rendered files\n"
        + (f"\nWhat it changes (gains of each by itself, with 95 % intervals):\n\n{lines}" if lines else "")
    )
