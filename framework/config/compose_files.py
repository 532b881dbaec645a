"""The user's compose files, as compose reads them.

One file that is complete in itself is read here: its text means the same to every reader.  Whatever else compose
offers (several files, an override, ``.env``, ``include``, ``extends``, ...) is resolved by compose itself, so that
no second reading of its rules can differ from the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.config.document import Document, KeyPath, read_document
from framework.config.reading import read_text
from framework.errors import FileError, MissingPrerequisite
from framework.ports.compose import ComposeReader, ComposeSource, ResolvedCompose

DEFAULT_NAMES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
OVERRIDES = (
    "compose.override.yml",
    "compose.override.yaml",
    "docker-compose.override.yml",
    "docker-compose.override.yaml",
)
TAGS = ("!reset", "!override")
DEEPEST = 20  # files that include or extend each other
_VARIABLE = re.compile(r"(?<!\$)(?:\$\$)*\$(?:\{)?([_a-zA-Z][_a-zA-Z0-9]*)")
REMEDY = "run `make compose`, or install Docker's compose plugin"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why compose has to resolve a file: ``what``, at ``key`` of ``document``.

    ``needed``: without compose it cannot be read; else only the variables of environment files stay unknown.
    """

    document: Document
    key: KeyPath
    what: str
    needed: bool = True

    def __str__(self) -> str:
        line = self.document.lines.get(self.key) if self.key else None
        return f"{self.document.path.name}{f', line {line}' if line else ''}: {self.what}"


def with_override(file: Path) -> tuple[Path, ...]:
    """Return a file of one of compose's own names with the override beside it, where there is one, as compose does."""
    if file.name not in DEFAULT_NAMES:
        return (file,)
    overrides = (file.parent / name for name in OVERRIDES)
    return (file, *[path for path in overrides if path.is_file()][:1])


def read_compose(source: ComposeSource, reader: ComposeReader | None) -> ResolvedCompose:
    """Read compose files; ``reader``: compose itself, None where there is none.

    Raises FileError where a file cannot be used, MissingPrerequisite where only compose could read it.
    """
    documents = list(_documents(source))
    reasons = list(_reasons(source, documents))
    reason = next((reason for reason in reasons if reason.needed), None)
    outside = next(_environment_files_outside(documents, source.directory), None)
    if reason is None and (reader is None or outside is not None or not reasons):
        (document, *_) = documents
        _check(document, document.data)
        return ResolvedCompose(document.data, _environments(document.data))
    if reader is None:  # then there is a reason
        raise MissingPrerequisite(f"only docker compose v2 reads this: {reason}", REMEDY)
    if outside is not None:
        raise outside
    resolved = reader.resolve(source)
    _check(documents[0], resolved.document)
    return ResolvedCompose(_own_profiles(resolved.document), resolved.environments, resolved.unset)


def files_of(source: ComposeSource) -> tuple[Path, ...]:
    """Return all files that compose reads for a source, in the order of reading.  Raises FileError."""
    read = [document.path for document in _documents(source)]
    others = [*source.env_files, *(path.parent / ".env" for path in (source.directory / "any", *read))]
    return tuple(dict.fromkeys([*read, *(path for path in others if path.is_file())]))


def variables_of(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the names of variables that a file mentions, each with its line."""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        for name in _VARIABLE.findall(line.partition(" #")[0]):
            yield name, number


# --------------------------------------------------------------------------- files that belong together


def _documents(source: ComposeSource) -> Iterator[Document]:
    """Yield the files of a source, each followed by those that it includes and extends.  Raises FileError."""
    seen: set[Path] = set()
    for file in source.files:
        yield from _with_others(file, source.directory, seen, DEEPEST)


def _with_others(file: Path, directory: Path, seen: set[Path], deepest: int) -> Iterator[Document]:
    path = file.resolve()
    if path in seen:
        return
    seen.add(path)
    document = read_document(file, TAGS)
    if deepest < 0:
        raise FileError(file, "", f"more than {DEEPEST} files that include each other", "fewer")
    yield document
    for key, name, base in _others(document, directory):
        if "$" in name:
            raise document.error(key, name, "a path without variables")
        if "://" in name or name.startswith(("git@", "oci:", "github.com/")):
            raise document.error(key, name, "a file of this machine: nothing is fetched from elsewhere")
        other = base / name
        if not other.is_file():
            raise document.error(key, name, "a file that exists")
        yield from _with_others(other, other.parent, seen, deepest - 1)


def _environment_files_outside(documents: Sequence[Document], directory: Path) -> Iterator[FileError]:
    """Yield an error for each environment file outside of the project's directory, whose content a study would get."""
    for document in documents:
        services = document.data.get("services") if isinstance(document.data, Mapping) else None
        for name, service in services.items() if isinstance(services, Mapping) else ():
            for entry in _listed(service.get("env_file")) if isinstance(service, Mapping) else ():
                path = str(entry.get("path", "")) if isinstance(entry, Mapping) else str(entry)
                bases = (directory.resolve(), document.path.parent.resolve())
                if "$" in path or not any((base / path).resolve().is_relative_to(base) for base in bases):
                    key = ("services", name, "env_file")
                    yield document.error(
                        key, path, "a file below the project's directory, without variables in its name"
                    )


def _others(document: Document, directory: Path) -> Iterator[tuple[KeyPath, str, Path]]:
    """Yield key, path and base directory of every file that a document includes or extends."""
    data = document.data if isinstance(document.data, Mapping) else {}
    for index, entry in enumerate(_listed(data.get("include"))):
        paths = entry.get("path") if isinstance(entry, Mapping) else entry
        for path in _listed(paths):
            yield ("include", index), str(path), directory
    services = data.get("services")
    for name, service in services.items() if isinstance(services, Mapping) else ():
        extended = service.get("extends") if isinstance(service, Mapping) else None
        if isinstance(extended, Mapping) and extended.get("file"):
            yield ("services", name, "extends", "file"), str(extended["file"]), directory


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


# --------------------------------------------------------------------------- what only compose reads


def _reasons(source: ComposeSource, documents: Sequence[Document]) -> Iterator[Reason]:
    """Yield why a source is more than one complete file."""
    first = documents[0]
    if len(source.files) > 1:
        yield Reason(first, (), f"it is read together with {source.files[1].name}")
    for path in (*source.env_files, source.directory / ".env"):
        if path.is_file():
            yield Reason(first, (), f"{path.name} gives it variables")
    if source.profiles:
        yield Reason(first, (), f"the profiles {', '.join(source.profiles)}")
    for document in documents:
        yield from (Reason(document, key, tag) for key, tag in document.tagged.items())
        yield from (Reason(document, key, "a number to some readers, text to others") for key in document.disputed)
        if isinstance(document.data, Mapping):
            yield from _features(document, document.data)


def _features(document: Document, data: Mapping[str, Any]) -> Iterator[Reason]:
    if data.get("include"):
        yield Reason(document, ("include",), "include")
    services = data.get("services")
    for name, service in services.items() if isinstance(services, Mapping) else ():
        for feature in ("extends", "env_file"):
            if isinstance(service, Mapping) and service.get(feature):
                yield Reason(document, ("services", name, feature), feature, needed=feature != "env_file")


def _own_profiles(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out the profiles that the user starts services by; one with the profile ``tailor`` stays a one-shot."""
    services = {
        name: {key: value for key, value in service.items() if key != "profiles" or "tailor" in (value or ())}
        for name, service in document["services"].items()
    }
    return {**document, "services": services}


def _environments(document: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the variables that a complete file sets: service -> variable -> value."""
    return {name: environment_of(service) for name, service in document["services"].items()}


def environment_of(service: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a service's ``environment`` that have a value."""
    given = service.get("environment") or {}
    items = (
        given.items()
        if isinstance(given, Mapping)
        else (str(item).partition("=")[::2] for item in given if "=" in str(item))
    )
    return {str(name): _text(value) for name, value in items if value is not None}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --------------------------------------------------------------------------- form


def _check(first: Document, data: Any) -> None:
    """Check the form of the parts that Tailor reads.  Raises FileError."""
    if not isinstance(data, Mapping) or not isinstance(data.get("services"), Mapping) or not data["services"]:
        raise first.error(("services",), "no services", "a compose file with services")
    for name, service in data["services"].items():
        key = ("services", name)
        if not isinstance(service, Mapping):
            raise first.error(key, service, "a mapping with image or build")
        if not isinstance(service.get("image") or service.get("build"), str | Mapping):
            raise first.error(key, "neither image nor build", "a service with image or build")
        for part, forms in (("environment", dict | list), ("labels", dict | list), ("volumes", list)):
            if not isinstance(service.get(part), forms | None):
                raise first.error((*key, part), service[part], "a list" if forms is list else "a mapping or a list")
