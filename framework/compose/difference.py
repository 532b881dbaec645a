"""The changes of a configuration as a unified diff against the default deployment."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from typing import Any

from framework.model import Deployment


def as_text(document: Mapping[str, Any]) -> str:
    """Write a document as JSON, one value per line, in the document's own order."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def difference(default: Deployment, other: Deployment, serialise: Callable[[Mapping[str, Any]], str] = as_text) -> str:
    """Compare documents and mounted files, without Tailor's labels, as a unified diff; empty when they are equal."""
    before, after = _texts(default, serialise), _texts(other, serialise)
    parts: list[str] = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, ""), after.get(name, "")
        lines = difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), f"default/{name}", f"configuration/{name}"
        )
        parts += [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
    return "".join(parts)


def _texts(deployment: Deployment, serialise: Callable[[Mapping[str, Any]], str]) -> dict[str, str]:
    texts = {f"{host}.yaml": serialise(_unlabelled(d, deployment.labels)) for host, d in deployment.documents.items()}
    return {**texts, **deployment.files}


def _unlabelled(document: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    services = {name: _without(entry, labels) for name, entry in document["services"].items()}
    return {**document, "services": services}


def _without(entry: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    given = entry.get("labels")
    if isinstance(given, list):
        kept: Any = [item for item in given if str(item).partition("=")[0] not in labels]
    else:
        kept = {name: text for name, text in (given or {}).items() if name not in labels}
    return {key: kept if key == "labels" else value for key, value in entry.items() if key != "labels" or kept}
