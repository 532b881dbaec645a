"""``application.yaml`` and all that it refers to -> Application."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from framework.config.added_tracing import ADDED, OTLP_PORT, PORTS, PROPAGATION, with_tracing
from framework.config.application_file import ApplicationFile, HookEntry
from framework.config.checked import did_you_mean, load
from framework.config.compose_files import files_of, read_compose, with_override
from framework.config.content import Elsewhere, content_hash, mounted_files, written_directories
from framework.config.document import Document, KeyPath, read_document
from framework.config.outcomes import outcome_constraint, quantity
from framework.config.reading import read_bytes, read_text
from framework.config.workload_content import read_workload, workload_files
from framework.errors import FileError
from framework.model import (
    EXTERNAL_GENERATORS,
    Application,
    DatasetSource,
    ExternalLoad,
    Hook,
    Hooks,
    Limits,
    Objective,
    Service,
    Template,
    Term,
    Tracing,
    Workload,
)
from framework.model.guard import GuardDefaults
from framework.ports.compose import ComposeReader, ComposeSource, ResolvedCompose
from optimizer.space import Predicate, arithmetic_names, circle_of

FILE = "application.yaml"
OWN = "tailor"  # the name of Tailor's own load generator
_KIND = re.compile(rb"(?m)^kind: *application\b")  # of a file that cannot be read as a document


def load_application(directory: Path, reader: ComposeReader | None = None) -> Application:
    """Read the application in ``directory`` (or the given ``application.yaml``).

    ``reader``: compose, for compose files that are more than one complete file; None: there is none here.
    Raises FileError, MissingPrerequisite where such files need a reader.

    Every service of the compose file becomes a Service; one that ``services`` does not list has no type (""), is not
    tuned, and belongs to the first host.
    """
    path = Path(os.path.normpath(Path(directory).absolute()))  # without "..", so that one directory has one content
    if path.is_dir():
        path = path / FILE
    document, file = load(path, ApplicationFile)
    root = path.parent
    source = _source(document, file, root)
    compose = _without(document, read_compose(source, reader), file.leave_out)
    services = compose.document["services"]
    written = written_directories(services, root)
    _check_services(document, file, services)
    dataset = _dataset(document, file, compose.document, root)
    copied = set(dataset.directories.values()) if dataset is not None else set()
    application = Application(
        name=file.name,
        directory=root,
        compose=compose.document,
        services=_services(document, file, services, root),
        hosts=tuple(file.hosts),
        workload=_workload(document, file, root, written),
        generator=file.load.generator,
        external=_external(document, file, root),
        tracing=_tracing(document, file, services),
        objective=Objective(
            tuple(Term(quantity(name), float(weight)) for name, weight in file.objective.items()),
            tuple(outcome_constraint(text) for text in file.subject_to),
            tuple(quantity(name) for name in file.also),
        ),
        hooks=_hooks(document, file, services),
        prepare_requests=_by_requests(file),
        dataset=dataset,
        guard=_guard(document, file, root),
        closed_loop=_closed_loop(document, file, root),
        limits=Limits(**file.limits.model_dump(exclude_none=True)),
        constraints=tuple(Predicate(text) for text in file.constraints),
        derived=_derived(document, file),
        entry=_entry(document, file, services),
        environments=compose.environments,
        unset=tuple(compose.unset),
        compose_directory=None if source.directory == root else source.directory,
        content_hash=content_hash(root, written | copied, _elsewhere(source, compose, root)),
    )
    return with_tracing(application)


def _closed_loop(document: Document, file: ApplicationFile, root: Path) -> Path | None:
    """Return the directory that ``closed_loop`` names.  Raises FileError where it has no application.yaml."""
    if file.closed_loop is None:
        return None
    return _existing(document, ("closed_loop",), root, f"{file.closed_loop}/application.yaml").parent


def is_application(path: Path) -> bool:
    """Return whether a file of this name is Tailor's: other software has an ``application.yaml`` too."""
    try:
        data = read_document(path).data
    except FileError:
        return _KIND.search(read_bytes(path)) is not None
    return isinstance(data, dict) and data.get("kind") == "application"


def _source(document: Document, file: ApplicationFile, root: Path) -> ComposeSource:
    """Return the compose files that an application names.  Raises FileError."""
    alone = isinstance(file.compose, str)
    names = [file.compose] if isinstance(file.compose, str) else file.compose
    paths = [
        _existing(document, ("compose",) if alone else ("compose", at), root, name) for at, name in enumerate(names)
    ]
    env_files = [_existing(document, ("env_files", at), root, name) for at, name in enumerate(file.env_files)]
    files = with_override(paths[0]) if alone else tuple(paths)
    return ComposeSource(files, files[0].parent, tuple(env_files), tuple(file.profiles))


def _without(document: Document, compose: ResolvedCompose, names: Sequence[str]) -> ResolvedCompose:
    """Leave services out, and every dependency on them.  Raises FileError for one that there is not."""
    services = compose.document["services"]
    for at, name in enumerate(names):
        _known(document, ("leave_out", at), name, services)
    kept = {name: _without_others(entry, names) for name, entry in services.items() if name not in names}
    return replace(compose, document={**compose.document, "services": kept}) if names else compose


def _without_others(entry: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    kept = dict(entry)
    for key in ("depends_on", "links"):
        given = entry.get(key)
        if isinstance(given, Mapping):
            kept[key] = {name: how for name, how in given.items() if name not in names}
        elif isinstance(given, list):
            kept[key] = [item for item in given if str(item).partition(":")[0] not in names]
    return kept


def _existing(document: Document, key: KeyPath, root: Path, name: str) -> Path:
    path = Path(os.path.normpath(root / name))
    if not path.is_file():
        raise document.error(key, name, f"a file; there is none at {path}")
    return path


def _check_services(document: Document, file: ApplicationFile, services: Mapping[str, Any]) -> None:
    for name, entry in file.services.items():
        _known(document, ("services", name), name, services)
        if entry.host is not None and entry.host not in file.hosts:
            allowed = f"one of hosts: {', '.join(file.hosts)}{did_you_mean(entry.host, file.hosts)}"
            raise document.error(("services", name, "host"), entry.host, allowed)


def _known(document: Document, key: KeyPath, name: str, services: Mapping[str, Any]) -> None:
    if name not in services:
        raise document.error(
            key, name, f"a service of the compose file{did_you_mean(name, services) or ': ' + ', '.join(services)}"
        )


def _services(
    document: Document, file: ApplicationFile, services: Mapping[str, Any], root: Path
) -> tuple[Service, ...]:
    """Return the services in the compose file's order.  Raises FileError for a template that cannot be read."""
    first = file.hosts[0]
    listed = []
    for name in services:
        entry = file.services.get(name)
        if entry is None:
            listed.append(Service(name, type="", host=first, tuned=False))
        else:
            listed.append(
                Service(
                    name,
                    entry.type or "",
                    entry.host or first,
                    entry.tuned,
                    dict(entry.fixed),
                    dict(entry.baseline),
                    dict(entry.arguments),
                    tuple(parameter.own(own) for own, parameter in entry.parameters.items()),
                    {
                        path: _template(document, ("services", name, "templates", path), root, file_name)
                        for path, file_name in entry.templates.items()
                    },
                )
            )
    return tuple(listed)


def _template(document: Document, key: KeyPath, root: Path, name: str) -> Template:
    """Read a file with placeholders, which is inside the application's directory.  Raises FileError."""
    path = _existing(document, key, root, name)
    if not path.resolve().is_relative_to(root.resolve()):
        raise document.error(key, name, "a file inside the application's directory, not a link out of it")
    return Template(path, read_text(path))


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


def _workload(document: Document, file: ApplicationFile, root: Path, data: Collection[Path]) -> Workload:
    entry = file.workload
    if entry.file is None:
        if file.load.generator == OWN:
            raise document.error(("workload",), "no file", f"file: the request mix that {OWN}'s generator sends")
        return Workload(float(entry.rate_rps), entry.arrivals, entry.target, {})
    if not (root / entry.file).is_file():
        raise document.error(("workload", "file"), entry.file, "a file in the application's directory")
    mix, checked = read_workload(root / entry.file)
    scheme = {"h2": "https", "h2c": "http"}.get(checked.protocol)
    if scheme is not None and urlsplit(entry.target).scheme != scheme:
        allowed = f"{scheme}://..., since {entry.file} has `protocol: {checked.protocol}`"
        raise document.error(("workload", "target"), entry.target, allowed)
    files = workload_files(mix, checked, root, data)
    return Workload(float(entry.rate_rps), entry.arrivals, entry.target, mix.data, files)


def _external(document: Document, file: ApplicationFile, root: Path) -> ExternalLoad:
    """Return how a generator of somebody else is run.  Raises FileError for keys that it cannot use."""
    entry = file.load
    kind = EXTERNAL_GENERATORS.get(entry.generator)
    if kind is None:
        for key in entry.model_fields_set - {"generator"}:
            allowed = f"{key} only with a generator of {', '.join(EXTERNAL_GENERATORS)}"
            raise document.error(("load", key), getattr(entry, key), allowed)
        return ExternalLoad()
    if entry.script is None and kind.needs_script:
        raise document.error(("load",), "no script", f"script: what {entry.generator} runs")
    if entry.script is not None and not (root / entry.script).is_file():
        raise document.error(("load", "script"), entry.script, "a file in the application's directory")
    if entry.script is not None and entry.path is not None:
        raise document.error(("load", "path"), entry.path, "either path or script")
    default = ExternalLoad()
    return ExternalLoad(
        entry.image or "",
        entry.script or "",
        tuple(entry.command),
        entry.path or default.path,
        entry.users or default.users,
        entry.operations or default.operations,
    )


def _tracing(document: Document, file: ApplicationFile, services: Mapping[str, Any]) -> Tracing | None:
    entry = file.tracing
    if entry is None:
        return None
    if entry.service is not None:
        _known(document, ("tracing", "service"), entry.service, services)
    elif ADDED in services:
        raise document.error(("tracing", "add"), ADDED, "another name for the user's service: this one is Tailor's")
    if entry.collector is not None:
        _known(document, ("tracing", "collector"), entry.collector, services)
    for name in entry.instrument:
        _known(document, ("tracing", "instrument", name), name, services)
    counters = entry.counters.model_dump() if entry.counters is not None else {}
    for pattern, name in entry.peers.items():
        _known(document, ("tracing", "peers", pattern), name, services)
    return Tracing(
        entry.service or ADDED,
        entry.port or PORTS[entry.api],
        entry.otlp_port if entry.service is not None else OTLP_PORT,
        entry.api,
        counters,
        entry.peers,
        tuple(entry.propagation) or PROPAGATION.get(entry.api, ()),
        added=entry.service is None,
        collector=entry.collector or "",
        collector_file=entry.collector_file or "",
        instrument=dict(entry.instrument),
    )


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
    if file.prepare == "hook" and "prepare" not in hooks:
        raise document.error(("prepare",), "hook", "requests, none; or declare hooks.prepare")
    if file.prepare == "requests" and file.load.generator != OWN:
        raise document.error(("prepare",), "requests", f"hook or none: only {OWN}'s own generator sends them")
    if file.prepare in ("requests", "none"):
        hooks.pop("prepare", None)
    return Hooks(**hooks)


def _by_requests(file: ApplicationFile) -> bool:
    """Return whether repetitions are prepared by the workload's requests, which only Tailor's generator can send."""
    chosen = file.prepare or ("requests" if file.hooks.prepare is None else "hook")
    return chosen == "requests" and file.load.generator == OWN


def _guard(document: Document, file: ApplicationFile, root: Path) -> GuardDefaults:
    entry = file.guard
    if entry is None:
        return GuardDefaults()
    name = entry.load_profile
    profile = None if name is None else _existing(document, ("guard", "load_profile"), root, name)
    return GuardDefaults(entry.target, entry.peak_rps or 0.0, profile)


def _dataset(document: Document, file: ApplicationFile, compose: Mapping[str, Any], root: Path) -> DatasetSource | None:
    """Return the source of the data that repetitions start from, where the file names one.  Raises FileError."""
    entry = file.dataset
    if entry is None:
        return None
    declared = compose.get("volumes") or {}
    named: list[tuple[KeyPath, str]] = [(("dataset", "volumes", at), name) for at, name in enumerate(entry.volumes)]
    named += [(("dataset", "directories", name), name) for name in entry.directories]
    for key, name in named:
        service, colon, path = name.partition(":")
        if colon:
            _known(document, key, service, compose["services"])
        if not (path.startswith("/") if colon else name in declared):
            near = did_you_mean(name, declared) or f": {', '.join(declared) or 'none is declared'}"
            raise document.error(key, name, f"SERVICE:/PATH, or a volume of the compose file{near}")
    return DatasetSource(
        entry.source, entry.project or "", tuple(entry.volumes),
        {name: Path(os.path.normpath(root / path)) for name, path in entry.directories.items()},
        entry.prepared, float(entry.timeout_s),
    )  # fmt: skip


def _entry(document: Document, file: ApplicationFile, services: Mapping[str, Any]) -> str:
    if file.entry is not None:
        _known(document, ("entry",), file.entry, services)
        return file.entry
    host = urlsplit(file.workload.target).hostname or ""
    if host not in services:
        raise document.error(("workload", "target"), file.workload.target, "the name of a service, or the key `entry`")
    return host


def _is_visible_in(path: Path, root: Path) -> bool:
    return path.is_relative_to(root) and not any(part.startswith(".") for part in path.relative_to(root).parts)


def _elsewhere(source: ComposeSource, compose: ResolvedCompose, root: Path) -> Elsewhere | None:
    """Return what an application's deployment takes from beside the visible files of its directory; None for nothing.

    Of compose files in the directory these are the files that compose reads besides: ``.env``, and those elsewhere.
    """
    if source.directory == root:
        others = tuple(path for path in files_of(source) if not _is_visible_in(path, root))
        return Elsewhere({}, others) if others else None
    return Elsewhere(compose.document, mounted_files(compose.document, source.directory))
