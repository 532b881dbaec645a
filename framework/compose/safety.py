"""The check of a compose document against the allow-list, and the document that runs instead of it.

Every document passes here on its way to the engine, with its variables filled in.  The result has only keys and values
of the allow-list, every mount in its long form, no published port, and no name that a resource of the user may have.
Anything else is refused by its name, unless the operator allows it.  Values that could change something the user
already runs (published ports, container names, labels that other software looks for) are left out with a note, or the
study works on a copy.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.compose.allow_list import RULES, UNLISTED
from framework.compose.checking import Check, Copied, Refusal
from framework.compose.interpolation import NO_VARIABLES, Variables

SECTIONS = ("services", "volumes", "networks", "configs", "secrets")
_NAME = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]*")
_LEFT_OUT = {
    "ports": "ports of {}: nothing is published on this machine",
    "container_name": "container names of {}: containers have names of the study's own",
    "labels": "labels of {}: other software on this machine may look for them",
    "addresses": "fixed addresses of {}: the study has networks of its own",
    "names": "the names of {}: they have names of the study's own",
    "selinux": "new SELinux labels for mounts of {}: the files keep those that they have",
    "networks": "the networks outside of the application that {} stand for: the study has its own in their place",
    "unset": "variables that are not set, and so become nothing: {}",
    "withheld": "variables that are set here and not passed on, so that defaults count: {} (see TAILOR_VARIABLES)",
}


@dataclass(frozen=True, slots=True)
class Admitted:
    """The result of the check.

    ``document``: the document to run, without variables.  ``refused``: why the user's document may not run as it is.
    ``left_out``: the things that a study leaves out, in sentences.  ``data``: key of a volume -> the data that are
    copied into it.  ``files``: name below the deployment's directory -> the file that is copied there.
    """

    document: Mapping[str, Any]
    refused: tuple[Refusal, ...]
    left_out: tuple[str, ...]
    data: Mapping[str, Copied]
    files: Mapping[str, Path]

    @property
    def notes(self) -> tuple[str, ...]:
        """The differences between a study and the user's own deployment, in sentences."""
        copied = [*map(str, self.data.values()), *(f"the file {path}" for path in self.files.values())]
        written = (f"services may write to {', '.join(copied)}: a study works on copies",) if copied else ()
        return tuple(f"left out: {text}" for text in self.left_out) + written


def admit(
    compose: Mapping[str, Any],
    *,
    application: str,
    base: Path,
    roots: Sequence[Path],
    own: Path | None = None,
    allowed: Collection[str] = (),
    variables: Variables = NO_VARIABLES,
) -> Admitted:
    """Check a compose document against the allow-list.

    ``application``: its name in ``allowed``, which has entries "application:place".  ``base``: the directory that its
    relative paths start from.  ``roots``: directories whose files it may mount.  ``own``: the deployment's own
    directory, whose files are Tailor's.
    """
    check = Check(application, base, tuple(roots), own, frozenset(allowed), variables)
    document = _document(check, compose)
    left_out = tuple(_LEFT_OUT[kind].format(", ".join(names)) for kind, names in check.left_out.items())
    return Admitted(document, tuple(check.refused.values()), left_out, check.data, check.files)


def _document(check: Check, compose: Mapping[str, Any]) -> dict[str, Any]:
    check.project = str(compose.get("name") or "")
    for key, value in compose.items():
        if key in SECTIONS:
            check.declared[key] = _section(check, key, check.filled(value, key))
        elif key not in ("version", "name") and not str(key).startswith("x-"):
            check.refuse(str(key), UNLISTED)
    check.declared = {key: check.declared.get(key, {}) for key in SECTIONS}
    declared = check.declared
    document: dict[str, Any] = {
        "services": {name: _service(check, name, entry) for name, entry in declared["services"].items()},
        "networks": {name: _network(check, name, entry) for name, entry in declared["networks"].items()},
        "volumes": {name: _volume(check, name, entry) for name, entry in declared["volumes"].items()} | check.copies,
    }
    for kind in ("configs", "secrets"):
        document[kind] = {name: _source(check, kind, name, entry) for name, entry in declared[kind].items()}
    return {key: value for key, value in document.items() if value or key == "services"}


def _section(check: Check, key: str, value: Any) -> Mapping[str, Any]:
    """Return the entries of a section by their names; an entry without keys becomes an empty mapping."""
    if not isinstance(value, Mapping):
        if value is not None:
            check.refuse(key, "no mapping", "write a mapping")
        return {}
    for name, entry in value.items():
        if not _NAME.fullmatch(name):
            check.refuse(f"{key}.{name}"[:200], "no plain name", "use letters, digits, dots, dashes and underscores")
        if not isinstance(entry, Mapping | None):
            check.refuse(f"{key}.{name}"[:200], "no mapping", "write a mapping")
    return {name: entry if isinstance(entry, Mapping) else {} for name, entry in value.items()}


def _service(check: Check, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for key, value in entry.items():
        rule = RULES.get(key)
        if rule is not None:
            kept = rule(check, name, key, value)
            if kept is not None:
                checked[key] = kept
        elif not (key.startswith("x-") or _nothing(value) or check.refuse(f"services.{name}.{key}", UNLISTED)):
            checked[key] = value
    return checked


def _nothing(value: Any) -> bool:
    """Return whether a value asks for nothing: none, false, zero or empty."""
    return value is None or value is False or value in (0, "", "false") or value == [] or value == {}


def _volume(check: Check, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Replace a volume by a plain one of the study's own, without a name outside of it."""
    place, external = f"volumes.{name}", entry.get("external")
    for key, value in entry.items():
        if key in ("labels", "external") or key.startswith("x-") or _nothing(value):
            continue
        if key == "name":
            if not external and value != f"{check.project}_{name}":
                check.leave_out("names", f"the volume {name}")
        elif key != "driver" or value != "local":
            check.refuse(f"{place}.{key}", "the volumes of a study are plain ones of the engine")
    if not _nothing(external):
        outside = external.get("name") if isinstance(external, Mapping) else entry.get("name")
        if not check.refuse(f"{place}.external", "a volume that is not the study's; where it is allowed, it is copied"):
            check.data[name] = Copied(volume=str(outside or name))
    return {}


def _network(check: Check, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Replace a network by a bridge of the study's own."""
    place, external = f"networks.{name}", entry.get("external")
    checked: dict[str, Any] = {}
    for key, value in entry.items():
        if key in ("labels", "external", "attachable") or key.startswith("x-") or _nothing(value):
            continue
        if key == "internal":
            checked[key] = value is True or value == "true"
        elif key == "name":
            if not external and value != f"{check.project}_{name}":
                check.leave_out("names", f"the network {name}")
        elif key in ("ipam", "enable_ipv6", "enable_ipv4"):
            check.leave_out("addresses", f"the network {name}")
        elif key != "driver" or value not in ("bridge", "default"):
            check.refuse(f"{place}.{key}", "the networks of a study are plain bridges")
    why = "a network that is not the study's; where it is allowed, the study has one of its own in its place"
    if not _nothing(external) and not check.refuse(f"{place}.external", why):
        check.leave_out("networks", name)
    return checked


def _source(check: Check, kind: str, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Check the source of a config or a secret: a file of the application's, or text."""
    place = f"{kind}.{name}"
    checked: dict[str, Any] = {}
    for key, value in entry.items():
        if key in ("name", "labels") or key.startswith("x-") or _nothing(value):
            continue
        if key == "file":
            path = check.path(str(value))
            why = check.not_readable(path)
            if not why or not check.refuse(f"{place}.file: {value}", why):
                checked["file"] = path
        elif key == "content" and kind == "configs":
            checked["content"] = str(value)
        elif not check.refuse(f"{place}.{key}", UNLISTED):
            checked[key] = value
    return checked
