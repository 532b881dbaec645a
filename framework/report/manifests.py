"""The best configuration as Kubernetes manifests, with everything that a compose file says and a cluster cannot do."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from framework.compose import difference, render
from framework.compose.interpolation import NO_VARIABLES
from framework.config.writing import to_yaml, write_text
from framework.errors import FieldError, FieldName, InputError
from framework.kubernetes import Manifests, Note, Sources, manifests_of
from framework.kubernetes.manifests import STORAGE, left_out
from framework.model import Deployment
from framework.report.export import BestOfStudy, check_empty, configuration_document

MANIFESTS = "manifests"
"""Directory of the manifests below the export's own: what `kubectl apply` is given."""


def export_manifests(
    of: BestOfStudy, directory: Path, *, storage: str = STORAGE, leave_out: bool = False
) -> Sequence[str]:
    """Write the manifests, the configuration, a diff against the default and a README; return their names.

    ``storage``: size of each volume's claim.  ``leave_out``: what has no counterpart, and without which a service would
    not work, is left out and said; else it is refused.  Raises InputError where the directory is not empty or cannot
    be written, for a storage that is no size, and for what is refused.
    """
    check_empty(directory)
    deployments = {
        name: render(of.application, of.types, configuration, project=of.application.name, labels={})
        for name, configuration in (("default", of.default), ("best", of.best))
    }
    manifests = manifests_of_deployment(of, deployments["best"], storage)
    if manifests.refused and not leave_out:
        lines = "".join(f"\n  {_place(note)}: {note.text}" for note in manifests.refused)
        raise InputError(
            f"{of.application.name}: a cluster cannot do what its compose file says:{lines}\nchange it there, or ",
            FieldName("leave_out"),
            " leaves it out and says so",
        )
    manifests = left_out(manifests)
    files = {f"{MANIFESTS}/{name}": _documents(objects) for name, objects in manifests.files.items()}
    files["configuration.yaml"] = to_yaml(configuration_document(of.default, of.best, of.dependent))
    files["changes.diff"] = difference(deployments["default"], deployments["best"], to_yaml)
    files["README.md"] = _readme(of, deployments["best"], manifests)
    try:
        for name, text in files.items():
            write_text(directory / name, text)
    except InputError:
        shutil.rmtree(directory, ignore_errors=True)  # do not leave an incomplete export
        raise
    return sorted(files)


def manifests_of_deployment(of: BestOfStudy, deployment: Deployment, storage: str = STORAGE) -> Manifests:
    """Return the manifests of a rendered deployment on one host.  Raises InputError where ``storage`` is no size."""
    application = of.application
    (document,) = deployment.documents.values()
    ports = {name: facts.ports for name, facts in application.images.items()}
    sources = Sources(deployment.files, tuple(dict.fromkeys((application.base, *application.roots, *deployment.roots))))
    try:
        return manifests_of(application.name, document, sources, ports=ports, variables=NO_VARIABLES, storage=storage)
    except ValueError:
        raise FieldError("storage", storage, "a size, such as 10Gi") from None


def _documents(objects: Sequence[Mapping[str, Any]]) -> str:
    return "---\n".join(to_yaml(item) for item in objects)


def _place(note: Note) -> str:
    return f"{note.service}: {note.key}" if note.service else note.key


# --------------------------------------------------------------------------- what a person reads first


def _readme(of: BestOfStudy, deployment: Deployment, manifests: Manifests) -> str:
    application = of.application
    renamed = {name: own for name, own in manifests.names.items() if name != own}
    secret = ", ".join(f"`{MANIFESTS}/{name}`" for name in manifests.secret)
    entry = manifests.names.get(application.entry, "")
    parts = [
        f"# {application.name}: the best configuration of study {of.study}, for Kubernetes\n",
        f"    kubectl apply -f {MANIFESTS}/\n",
        "The manifests are made of the compose document of this configuration. They fit the schemas of Kubernetes'\n"
        "API. Tailor has not run them on a cluster, and has not measured on one: measure again there.\n",
        f"Clients call the service `{entry}`.\n" if entry else "",
        f"What looks like passwords stands in Secrets, in {secret}: keep them as you keep yours.\n" if secret else "",
        "Where only a limit is given, Kubernetes asks for as much: nodes need room for all limits together.\n",
    ]
    if deployment.live:
        commands = "".join(
            f"    kubectl exec deployment/{manifests.names.get(service, service)} -- {shlex.join(command)}\n"
            for service, command in deployment.live
        )
        parts.append(f"Part of the configuration, to be run each time that these services have started:\n\n{commands}")
    if of.changed:
        lines = "".join(f"- {line}\n" for line in of.changed)
        parts.append(f"What the configuration changes (gains of each by itself, with 95 % intervals):\n\n{lines}")
    if renamed:
        parts.append("Other names: " + ", ".join(f"{name} is {own}" for name, own in renamed.items()) + ".\n")
    parts.append(f"## What is different from compose, or has no counterpart\n\n{_notes(manifests.notes)}")
    return "\n".join(part for part in parts if part)


def _notes(notes: Sequence[Note]) -> str:
    """Return the notes, those that several services share once, with the services' names."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        grouped.setdefault((note.key, note.text), []).append(note.service)
    lines = []
    for (key, text), services in grouped.items():
        who = ", ".join(name for name in services if name)
        lines.append(f"- {f'**{who}**: ' if who else ''}`{key}`: {text}\n")
    return "".join(lines)
