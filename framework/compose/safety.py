"""What a compose file may ask for, and the document that runs in its place.

Every document passes here on its way to the engine, with its variables filled in.  What comes out holds keys and
values of the allow-list only, every mount in its long form, nothing that is published, and no name that could be
something else's.  What is not on the list is refused by its name, unless the operator allows it.  Where a value could
change what the user already runs, a study goes without it (published ports, container names, labels that other
software looks for) and says so, or works on a copy.
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
    """What of a document may run.

    ``document``: without variables, every mount in its long form.  ``refused``: why it may not run as it is.
    ``left_out``: what the study goes without, in sentences.  ``data``: key of a volume -> what it begins as a copy of.
    ``files``: name below the deployment's directory -> the file that is copied there.
    """

    document: Mapping[str, Any]
    refused: tuple[Refusal, ...]
    left_out: tuple[str, ...]
    data: Mapping[str, Copied]
    files: Mapping[str, Path]

    @property
    def notes(self) -> tuple[str, ...]:
        """What is other in a study than in the user's own deployment, in sentences."""
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
    """Check a compose document against the list.

    ``application``: its name in ``allowed``, which holds entries "application:place".  ``base``: what its relative
    paths start from.  ``roots``: directories whose files it may mount.  ``own``: the deployment's own directory, whose
    files are Tailor's.
    """
    check = Check(application, base, tuple(roots), own, frozenset(allowed), variables)
    document = _document(check, compose)
    left_out = tuple(_LEFT_OUT[kind].format(", ".join(names)) for kind, names in check.left_out.items())
    return Admitted(document, tuple(check.refused.values()), left_out, check.data, check.files)


def _document(check: Check, compose: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in compose.items():
        if key in SECTIONS:
            check.declared[key] = _section(check, key, check.filled(value, key))
        elif key not in ("version", "name") and not str(key).startswith("x-"):
            check.refuse(str(key), UNLISTED)
    check.declared = {key: check.declared.get(key, {}) for key in SECTIONS}
    declared = check.declared
    found: dict[str, Any] = {
        "services": {name: _service(check, name, body) for name, body in declared["services"].items()},
        "networks": {name: _network(check, name, about) for name, about in declared["networks"].items()},
        "volumes": {name: _volume(check, name, about) for name, about in declared["volumes"].items()} | check.copies,
    }
    for kind in ("configs", "secrets"):
        found[kind] = {name: _source(check, kind, name, about) for name, about in declared[kind].items()}
    return {key: value for key, value in found.items() if value or key == "services"}


def _section(check: Check, key: str, value: Any) -> Mapping[str, Any]:
    """A section's members by their names; one without settings has none."""
    if not isinstance(value, Mapping):
        if value is not None:
            check.refuse(key, "no mapping", "write a mapping")
        return {}
    for name, about in value.items():
        if not _NAME.fullmatch(name):
            check.refuse(f"{key}.{name}"[:200], "no plain name", "use letters, digits, dots, dashes and underscores")
        if not isinstance(about, Mapping | None):
            check.refuse(f"{key}.{name}"[:200], "no mapping", "write a mapping")
    return {name: about if isinstance(about, Mapping) else {} for name, about in value.items()}


def _service(check: Check, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in body.items():
        rule = RULES.get(key)
        if rule is not None:
            kept = rule(check, name, key, value)
            if kept is not None:
                found[key] = kept
        elif not (key.startswith("x-") or _nothing(value) or check.refuse(f"services.{name}.{key}", UNLISTED)):
            found[key] = value
    return found


def _nothing(value: Any) -> bool:
    """Whether a value asks for nothing, in so many words."""
    return value is None or value is False or value in (0, "", "false") or value == [] or value == {}


def _volume(check: Check, name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """A plain volume of the study's own, whatever it is called outside."""
    place, external = f"volumes.{name}", about.get("external")
    for key, value in about.items():
        if key in ("labels", "external") or key.startswith("x-") or _nothing(value):
            continue
        if key == "name":
            if not external:
                check.without("names", f"the volume {name}")
        elif key != "driver" or value != "local":
            check.refuse(f"{place}.{key}", "the volumes of a study are plain ones of the engine")
    if not _nothing(external):
        outside = external.get("name") if isinstance(external, Mapping) else about.get("name")
        if not check.refuse(f"{place}.external", "a volume that is not the study's; where it is allowed, it is copied"):
            check.data[name] = Copied(volume=str(outside or name))
    return {}


def _network(check: Check, name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """A bridge of the study's own."""
    place, external = f"networks.{name}", about.get("external")
    found: dict[str, Any] = {}
    for key, value in about.items():
        if key in ("labels", "external", "attachable") or key.startswith("x-") or _nothing(value):
            continue
        if key == "internal":
            found[key] = value is True or value == "true"
        elif key == "name":
            if not external:
                check.without("names", f"the network {name}")
        elif key in ("ipam", "enable_ipv6", "enable_ipv4"):
            check.without("addresses", f"the network {name}")
        elif key != "driver" or value not in ("bridge", "default"):
            check.refuse(f"{place}.{key}", "the networks of a study are plain bridges")
    why = "a network that is not the study's; where it is allowed, the study has one of its own in its place"
    if not _nothing(external) and not check.refuse(f"{place}.external", why):
        check.without("networks", name)
    return found


def _source(check: Check, kind: str, name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """Of a configuration or a secret: a file of the application's, or text."""
    place = f"{kind}.{name}"
    found: dict[str, Any] = {}
    for key, value in about.items():
        if key in ("name", "labels") or key.startswith("x-") or _nothing(value):
            continue
        if key == "file":
            path = check.path(str(value))
            why = check.not_readable(path)
            if not why or not check.refuse(f"{place}.file: {value}", why):
                found["file"] = path
        elif key == "content" and kind == "configs":
            found["content"] = str(value)
        elif not check.refuse(f"{place}.{key}", UNLISTED):
            found[key] = value
    return found
