"""``application.yaml`` and all that it refers to -> Application."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from framework.config.application_file import ApplicationFile, HookEntry
from framework.config.checked import check, did_you_mean, load
from framework.config.document import Document, read_document
from framework.config.outcomes import outcome_constraint, quantity
from framework.config.reading import APPLICATION_BYTES, CHUNK_BYTES, open_regular
from framework.config.twin_file import twin_path
from framework.config.workload_file import WorkloadFile, check_references
from framework.errors import FileError
from framework.model import Application, Hook, Hooks, Limits, Objective, Service, Term, Tracing, Workload
from optimizer.space import Predicate, arithmetic_names, circle_of

FILE = "application.yaml"


def load_application(directory: Path) -> Application:
    """Read the application in ``directory`` (or the given ``application.yaml``).  Raises FileError.

    Every service of the compose file becomes a Service; one that ``services`` does not list has no type (""), is not
    tuned, and belongs to the first host.
    """
    path = Path(directory).absolute()
    if path.is_dir():
        path = path / FILE
    document, file = load(path, ApplicationFile)
    root = path.parent
    compose = _compose(root / file.compose, document)
    services = compose["services"]
    _check_services(document, file, services)
    return Application(
        name=file.name,
        directory=root,
        compose=compose,
        services=_services(file, services),
        hosts=tuple(file.hosts),
        workload=_workload(document, file, root),
        generator=file.load.generator,
        tracing=_tracing(document, file, services),
        objective=Objective(
            tuple(Term(quantity(name), float(weight)) for name, weight in file.objective.items()),
            tuple(outcome_constraint(text) for text in file.subject_to),
            tuple(quantity(name) for name in file.also),
        ),
        hooks=_hooks(document, file, services),
        limits=Limits(**file.limits.model_dump(exclude_none=True)),
        constraints=tuple(Predicate(text) for text in file.constraints),
        derived=_derived(document, file),
        entry=_entry(document, file, services),
        content_hash=content_hash(root, _data(services, root)),
    )


def _compose(path: Path, application: Document) -> dict[str, Any]:
    """Read the compose file as plain data.  Raises FileError."""
    if not path.is_file():
        raise application.error(("compose",), path.name, "a compose file in the application's directory")
    document = read_document(path)
    data = document.data
    if not isinstance(data, dict) or not isinstance(data.get("services"), dict) or not data["services"]:
        raise document.error(("services",), "no services", "a compose file with services")
    if "include" in data:
        raise document.error(("include",), "include", "one compose file that is complete in itself")
    for name, service in data["services"].items():
        key = ("services", name)
        if not isinstance(service, dict):
            raise document.error(key, service, "a mapping with image or build")
        if "extends" in service:
            raise document.error(
                (*key, "extends"), "extends", "a service that is complete in itself (use YAML anchors)"
            )
        if not isinstance(service.get("image") or service.get("build"), str | dict):
            raise document.error(key, "neither image nor build", "a service with image or build")
        for part, forms in (("environment", dict | list), ("labels", dict | list), ("volumes", list)):
            if not isinstance(service.get(part), forms | None):
                raise document.error((*key, part), service[part], "a list" if forms is list else "a mapping or a list")
    return data


def _check_services(document: Document, file: ApplicationFile, services: Mapping[str, Any]) -> None:
    for name, entry in file.services.items():
        _known(document, ("services", name), name, services)
        if entry.host is not None and entry.host not in file.hosts:
            allowed = f"one of hosts: {', '.join(file.hosts)}{did_you_mean(entry.host, file.hosts)}"
            raise document.error(("services", name, "host"), entry.host, allowed)


def _known(document: Document, key: tuple[str, ...], name: str, services: Mapping[str, Any]) -> None:
    if name not in services:
        raise document.error(
            key, name, f"a service of the compose file{did_you_mean(name, services) or ': ' + ', '.join(services)}"
        )


def _services(file: ApplicationFile, services: Mapping[str, Any]) -> tuple[Service, ...]:
    """Return the services in the compose file's order."""
    first = file.hosts[0]
    listed = []
    for name in services:
        entry = file.services.get(name)
        if entry is None:
            listed.append(Service(name, type="", host=first, tuned=False))
        else:
            listed.append(Service(name, entry.type, entry.host or first, entry.tuned, dict(entry.fixed)))
    return tuple(listed)


def _derived(document: Document, file: ApplicationFile) -> dict[str, str]:
    """Return the derived parameters, whose services are known here, but not their parameters.  Raises FileError."""
    sources = {name: arithmetic_names(text) for name, text in file.derived.items()}
    for name, named in sources.items():
        service, _, parameter = name.rpartition(".")
        entry = file.services.get(service)
        if entry is None or not entry.tuned or parameter in entry.fixed:
            tuned = [known for known, listed in file.services.items() if listed.tuned]
            raise document.error(
                ("derived", name), name, f"a parameter that is not fixed of a service that is tuned: {', '.join(tuned)}"
            )
        for source in named:
            if source.rpartition(".")[0] not in file.services:
                near = did_you_mean(source.rpartition(".")[0], file.services)
                raise document.error(("derived", name), source, f"parameters of {', '.join(file.services)}{near}")
    if circle := circle_of(sources):
        raise document.error(("derived", circle[0]), " -> ".join(circle), "values that do not follow from themselves")
    return dict(file.derived)


def _workload(document: Document, file: ApplicationFile, root: Path) -> Workload:
    entry = file.workload
    if not (root / entry.file).is_file():
        raise document.error(("workload", "file"), entry.file, "a file in the application's directory")
    return Workload(float(entry.rate_rps), entry.arrivals, entry.target, load_workload_document(root / entry.file))


def load_workload_document(path: Path) -> dict[str, Any]:
    """Read and check the request mix; the content stays as the load generator reads it.  Raises FileError."""
    document = read_document(path)
    check_references(document, check(document, WorkloadFile))
    data: dict[str, Any] = document.data
    return data


def _tracing(document: Document, file: ApplicationFile, services: Mapping[str, Any]) -> Tracing:
    entry = file.tracing
    _known(document, ("tracing", "service"), entry.service, services)
    counters = entry.counters.model_dump() if entry.counters is not None else {}
    for pattern, name in entry.peers.items():
        _known(document, ("tracing", "peers", pattern), name, services)
    return Tracing(entry.service, entry.port, entry.otlp_port, entry.api, counters, entry.peers)


def _hooks(document: Document, file: ApplicationFile, services: Mapping[str, Any]) -> Hooks:
    hooks: dict[str, Hook] = {}
    for name in ("seed", "prepare", "check_before", "check_after"):
        entry: HookEntry | None = getattr(file.hooks, name)
        if entry is None:
            continue
        key = ("hooks", name, "service")
        _known(document, key, entry.service, services)
        if not services[entry.service].get("profiles"):
            allowed = "a compose service behind `profiles: [tailor]` (without it, it starts with the application)"
            raise document.error(key, entry.service, allowed)
        hooks[name] = Hook(entry.service, tuple(entry.command), float(entry.timeout_s))
    return Hooks(**hooks)


def _entry(document: Document, file: ApplicationFile, services: Mapping[str, Any]) -> str:
    if file.entry is not None:
        _known(document, ("entry",), file.entry, services)
        return file.entry
    host = urlsplit(file.workload.target).hostname or ""
    if host not in services:
        raise document.error(("workload", "target"), file.workload.target, "the name of a service, or the key `entry`")
    return host


def _data(services: Mapping[str, Any], root: Path) -> frozenset[Path]:
    """Return the directories below ``root`` that a service mounts and may write: data, which change as it runs."""
    directories = set()
    for mount in (mount for service in services.values() for mount in service.get("volumes") or []):
        if isinstance(mount, Mapping):
            source, read_only = str(mount.get("source", "")), mount.get("read_only") in (True, "true")
        else:
            source, _, rest = str(mount).partition(":")
            read_only = "ro" in rest.partition(":")[2].split(",")
        path = Path(os.path.normpath(root / source))
        if source and "/" in source and not read_only and path != root and path.is_relative_to(root) and path.is_dir():
            directories.add(path)
    return frozenset(directories)


def content_hash(directory: Path, data: Collection[Path] = ()) -> str:
    """Hash path, length and content of every file below ``directory``, in the order of paths, to 16 hex digits.

    Hidden files, caches of interpreters, the application's twin and the directories of ``data`` are left out: they
    change while the application stays as it is.
    """
    digest = hashlib.sha256()
    for path in _files(directory, data):
        name = path.relative_to(directory).as_posix().encode()
        if path.is_symlink():
            target = os.fsencode(path.readlink())
            digest.update(b"%d %b %d " % (len(name), name, len(target)) + target)
        else:
            _add_content(digest, path, name)
    return digest.hexdigest()[:16]


def _add_content(digest: hashlib._Hash, path: Path, name: bytes) -> None:
    """Hash a file's name, length and content, in pieces: it may be larger than memory.  Raises FileError."""
    with open_regular(path, APPLICATION_BYTES) as file:
        left = os.fstat(file.fileno()).st_size
        digest.update(b"%d %b %d " % (len(name), name, left))
        try:
            while part := file.read(min(left, CHUNK_BYTES)):
                digest.update(part)
                left -= len(part)
            left -= len(file.read(1))
        except OSError as error:
            raise FileError(path, "", error.strerror or "unreadable", "a readable file") from None
    if left:
        raise FileError(path, "", "a file that changed while it was read", "files that stay as they are")


def _files(directory: Path, data: Collection[Path]) -> list[Path]:
    paths: list[Path] = []
    for folder, folders, names in os.walk(directory):
        left_out = {path.name for path in data if path.parent == Path(folder)} | {"__pycache__"}
        folders[:] = [name for name in folders if not name.startswith(".") and name not in left_out]
        paths += [Path(folder, name) for name in names if not name.startswith(".")]
        paths += [Path(folder, name) for name in folders if Path(folder, name).is_symlink()]
    kept = (path for path in paths if path != twin_path(directory))
    return sorted(kept, key=lambda path: path.relative_to(directory).as_posix())
