"""Kubernetes manifests of a whole compose document, in an order that does not change from run to run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from framework.compose.interpolation import NO_VARIABLES, InterpolationError, Variables, interpolated
from framework.kubernetes.amounts import memory
from framework.kubernetes.container import split_secrets, variables_of
from framework.kubernetes.names import Names, is_label, label
from framework.kubernetes.network import Port, further_names, mentioned, ports_of, says, service_object
from framework.kubernetes.pod import container, deployment, job, pod_spec
from framework.kubernetes.said import ALL, Note, Said
from framework.kubernetes.sources import NotCarried, Sources
from framework.kubernetes.unmatched import unmatched
from framework.kubernetes.volumes import Storage, volumes_of

_NAME, _PART_OF = "app.kubernetes.io/name", "app.kubernetes.io/part-of"
_SECTIONS = frozenset({"name", "version", "services", "volumes", "networks", "configs", "secrets"})
STORAGE = "10Gi"


@dataclass(frozen=True, slots=True)
class Manifests:
    """The objects of an application.

    ``files``: file name -> its objects; ``notes``: what is different, or has no counterpart; ``names``: compose service
    -> name in the cluster; ``secret``: files that hold what looks like secrets.
    """

    files: Mapping[str, Sequence[Mapping[str, Any]]]
    notes: Sequence[Note]
    names: Mapping[str, str] = field(default_factory=dict)
    secret: Sequence[str] = ()

    @property
    def refused(self) -> Sequence[Note]:
        """The notes of what keeps services from working as they do in compose."""
        return [note for note in self.notes if note.refused]


@dataclass(frozen=True, slots=True)
class _Whole:
    """All that the conversion of one service has to know of the others."""

    application: str
    document: Mapping[str, Any]
    names: Mapping[str, str]
    storage: Storage
    texts: Mapping[str, Sequence[str]]  # service -> texts in which it may name others
    ending: frozenset[str]
    sources: Sources
    objects: Names
    said: Said


def manifests_of(
    application: str,
    document: Mapping[str, Any],
    sources: Sources,
    *,
    ports: Mapping[str, Sequence[int]] | None = None,
    variables: Variables = NO_VARIABLES,
    storage: str = STORAGE,
) -> Manifests:
    """Make the manifests of a compose document, as ``framework.compose.render`` writes it.

    ``ports``: service -> ports that its image declares.  ``storage``: size of each claim.  What is refused is left out
    of the objects, and noted.  Raises ValueError where ``storage`` is no size.
    """
    said = Said()
    size = storage if storage.endswith(("Ki", "Mi", "Gi", "Ti")) else memory(storage)
    filled = _filled(document, variables, said)
    services = {name: entry for name, entry in filled["services"].items() if not entry.get("profiles")}
    for name in filled["services"]:
        if name not in services:
            said.say(name, "profiles", "it runs on request only: it is left out")
    texts = {name: list(_texts(entry, sources)) for name, entry in services.items()}
    names = _names(services, texts, said)
    claims = Names()
    declared = filled.get("volumes") or {}
    where = Storage(declared, {key: _claim(key, declared[key] or {}, claims) for key in sorted(declared)})
    ending = frozenset(
        other
        for entry in services.values()
        for other, how in (entry["depends_on"].items() if isinstance(entry.get("depends_on"), Mapping) else ())
        if (how or {}).get("condition") == "service_completed_successfully"
    )
    whole = _Whole(label(application), filled, names, where, texts, ending, sources, Names(), said)
    files: dict[str, list[dict[str, Any]]] = {}
    holders: dict[str, list[str]] = {}
    for name, entry in services.items():
        try:
            objects, mounted = _service(name, entry, (ports or {}).get(name, ()), whole)
        except (ValueError, TypeError, KeyError) as error:
            said.refuse(name, "services", f"not understood: {error}")
            continue
        files[f"{names[name]}.yaml"] = [_labelled(item, whole.application, names[name]) for item in objects]
        for key in mounted:
            holders.setdefault(key, []).append(name)
    if volumes := _claims(where, holders, services, size, said):
        files["volumes.yaml"] = [_labelled(item, whole.application, "") for item in volumes]
    _document_notes(filled, services, said)
    secret = [file for file, objects in files.items() if any(item["kind"] == "Secret" for item in objects)]
    return Manifests(dict(sorted(files.items())), tuple(said.notes), names, tuple(sorted(secret)))


# --------------------------------------------------------------------------- one service


def _service(
    name: str, entry: Mapping[str, Any], known: Sequence[int], whole: _Whole
) -> tuple[list[dict[str, Any]], Sequence[str]]:
    """Return the objects of a service, and the keys of the volumes that it mounts."""
    said, own = whole.said, whole.names[name]
    unmatched(name, entry, said)
    selector = {_NAME: own, _PART_OF: whole.application}
    declared = ports_of(name, entry, known, said)
    also = [Port(port) for port in mentioned(name, _others(name, whole))] if declared else []
    ports = sorted({*declared, *also})
    volumes = volumes_of(name, entry, whole.document, whole.storage, whole.sources, whole.objects, said)
    secrets, plain = split_secrets(variables_of(name, entry, whole.sources, said))
    secret = whole.objects.new(f"{own}-environment") if secrets else ""
    body = {"name": own, **container(name, entry, (secret, secrets, plain), ports, volumes, said)}
    spec = pod_spec(name, entry, body, volumes, said)
    objects: list[dict[str, Any]] = [*volumes.objects]
    if secrets:
        given = dict(sorted(secrets.items()))
        objects.append({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}, "stringData": given})
    if name in whole.ending:
        objects.append(job(own, selector, spec, entry))
        said.say(name, "depends_on", "others wait for its end: it is a Job, which nobody waits for here; to run it "
                 "again, delete it first")  # fmt: skip
    else:
        _restart_note(name, entry, said)
        changes = objects[len(volumes.objects) :]
        objects.append(deployment(own, selector, spec, _replicas(entry), volumes, changes))
    objects.append(service_object(own, selector, ports))
    for other in further_names(name, entry, said):
        if other in whole.names.values():
            said.refuse(name, f"name {other}", "another service has this name")
        else:
            objects.append(service_object(whole.objects.new(other), selector, ports))
    if not ports:
        said.say(name, "expose", "it declares no port: its name resolves to its pods (a headless Service), and a "
                 "client that keeps an address has to look it up again when a pod is replaced")  # fmt: skip
    return objects, volumes.claims


def _replicas(entry: Mapping[str, Any]) -> int:
    wanted = entry.get("scale", (entry.get("deploy") or {}).get("replicas", 1))
    return int(1 if wanted is None else wanted)


def _restart_note(name: str, entry: Mapping[str, Any], said: Said) -> None:
    policy = str(entry.get("restart") or "no")
    if policy not in ("always", "unless-stopped"):
        text = (
            "compose leaves it stopped once it ends" if policy in ("no", "False", "false") else f"compose has {policy}"
        )
        said.say(name, "restart", f"{text}; a Deployment always starts it again")


def _others(name: str, whole: _Whole) -> list[str]:
    return [text for other, texts in whole.texts.items() if other != name for text in texts]


# --------------------------------------------------------------------------- all services


def _filled(document: Mapping[str, Any], variables: Variables, said: Said) -> dict[str, Any]:
    """Fill in the variables of a document; one without a value is said."""
    unset: set[str] = set()

    def filled(value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, Mapping):
            return {key: filled(item, (*path, str(key))) for key, item in value.items()}
        if isinstance(value, list):
            return [filled(item, path) for item in value]
        if not isinstance(value, str):
            return value
        try:
            return interpolated(value, variables, unset)
        except InterpolationError as error:
            service = path[1] if path[0] == "services" and len(path) > 1 else ALL
            said.refuse(service, ".".join(path[2:] if service else path), error.reason)
            return ""

    result = {key: filled(value, (str(key),)) for key, value in document.items()}
    for name in sorted(unset):
        said.say(ALL, f"${{{name}}}", "the variable has no value: it is empty")
    return result


def _names(services: Mapping[str, Any], texts: Mapping[str, Sequence[str]], said: Said) -> dict[str, str]:
    """Return service -> its name in the cluster, and say where others would not find it."""
    given = Names({name for name in services if is_label(name)})
    names = {name: name if is_label(name) else given.new(name) for name in services}
    for name, own in names.items():
        if own == name:
            continue
        users = [
            other for other, own_texts in texts.items() if other != name and any(says(name, text) for text in own_texts)
        ]
        if users:
            said.refuse(name, "its name", f"no DNS label, so that its Service is {own}; rename it in the compose file "
                        f"and where {', '.join(users)} addresses it as {name}")  # fmt: skip
        else:
            said.say(name, "its name", f"no DNS label: it is {own}; no text that is known here addresses it as {name}")
    return names


def _texts(entry: Mapping[str, Any], sources: Sources) -> Iterator[str]:
    """Yield the texts of a service that may name others: variables, commands, and the files that it mounts."""
    for key in ("environment", "command", "entrypoint", "healthcheck"):
        yield from _strings(entry.get(key))
    for mount in entry.get("volumes") or ():
        source = mount.get("source") if isinstance(mount, Mapping) else str(mount).partition(":")[0]
        try:
            files = sources.tree(str(source)).files.values() if str(source).startswith(("/", "./")) else ()
        except NotCarried:
            continue  # refused where the mount is read
        yield from (file.text for file in files if file.text is not None)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif value is not None:
        yield str(value)


def _claim(key: str, about: Mapping[str, Any], claims: Names) -> str:
    """Return the name of a volume's claim; of an external one it is the user's."""
    if about.get("external"):
        return str(about.get("name") or key)
    return claims.new(key)


def _claims(
    storage: Storage, holders: Mapping[str, Sequence[str]], services: Mapping[str, Any], size: str, said: Said
) -> list[dict[str, Any]]:
    """Return the claims of the volumes that services mount; several pods need one that many nodes can mount."""
    objects = []
    for key in sorted(holders):
        about, users = storage.declared.get(key) or {}, list(dict.fromkeys(holders[key]))
        name = storage.names[key]
        if about.get("external"):
            said.say(ALL, f"volumes.{key}", f"it is external: make the PersistentVolumeClaim {name} before")
            continue
        if about.get("driver") not in (None, "local") or about.get("driver_opts"):
            said.say(
                ALL,
                f"volumes.{key}",
                "its driver and options are not carried over: the cluster's storage class decides",
            )
        many = len(users) > 1 or _replicas(services[users[0]]) > 1
        if many:
            said.say(ALL, f"volumes.{key}", f"several pods of {', '.join(users)} mount it: the storage class has to "
                     "offer ReadWriteMany")  # fmt: skip
        spec = {
            "accessModes": ["ReadWriteMany" if many else "ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        }
        objects.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})
    if objects:
        said.say(ALL, "volumes", f"compose knows no sizes: each claim asks for {size}")
    return objects


def _labelled(item: dict[str, Any], application: str, name: str) -> dict[str, Any]:
    labels = {**({_NAME: name} if name else {}), _PART_OF: application}
    return {**item, "metadata": {**item["metadata"], "labels": labels}}


def _document_notes(document: Mapping[str, Any], services: Mapping[str, Any], said: Said) -> None:
    for key in document:
        if key not in _SECTIONS and not str(key).startswith("x-"):
            said.refuse(ALL, str(key), "not known here")
    networks = document.get("networks") or {}
    used = {str(network) for entry in services.values() for network in entry.get("networks") or ("default",)}
    if len(used) > 1:
        said.say(ALL, "networks", f"{', '.join(sorted(used))} separate services; in a cluster every pod reaches every "
                 "other, unless NetworkPolicies say otherwise")  # fmt: skip
    for key, about in networks.items():
        if (about or {}).get("external"):
            said.say(
                ALL, f"networks.{key}", "a network outside of the application: what is on it is not in the cluster"
            )
        elif (about or {}).get("internal"):
            said.say(ALL, f"networks.{key}", "it is internal: here its services can reach the internet")


def left_out(manifests: Manifests) -> Manifests:
    """Return the manifests with what is refused as notes like the others: it is left out."""
    notes = [
        replace(note, text=f"left out: {note.text}", refused=False) if note.refused else note
        for note in manifests.notes
    ]
    return replace(manifests, notes=tuple(notes))
