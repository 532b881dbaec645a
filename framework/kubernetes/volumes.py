"""Volumes of pods: claims for named volumes, ConfigMaps and Secrets for mounted files, memory for tmpfs.

A directory of files is one ConfigMap that lists its files with their paths; a file that is mounted inside of it takes
the place of its own there, since nothing can be mounted over a file of a ConfigMap.
"""

from __future__ import annotations

import base64
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from framework.compose.allow_list import members
from framework.compose.mounts import Mount, NotUnderstood, read_mount
from framework.compose.secrets import text_without_secrets
from framework.kubernetes.amounts import memory
from framework.kubernetes.names import Names
from framework.kubernetes.said import Said
from framework.kubernetes.sources import MOST, PLAIN, File, NotCarried, Sources, Tree

_SUBDIRECTORY = "data"  # of a claim: a fresh disk may hold lost+found, and databases want an empty directory
_UPSTREAM = re.compile(r"\b(?:proxy|fastcgi|uwsgi|scgi|grpc|memcached)_pass\b")  # nginx's: no passwords
_SECRETS = "/run/secrets"


@dataclass(slots=True)
class Content:
    """Files for one mount: ``tree``, at ``target``.  ``secret``: they go into a Secret."""

    target: str
    tree: Tree
    secret: bool = False


@dataclass(slots=True)
class Volumes:
    """The volumes of one service.

    ``objects``: ConfigMaps and Secrets, in the order of their mounts.  ``claims``: keys of the document's volumes.
    """

    volumes: list[dict[str, Any]] = field(default_factory=list)
    mounts: list[dict[str, Any]] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)

    def add(self, source: Mapping[str, Any], **mount: Any) -> None:
        """Add a volume with one mount."""
        name = f"volume-{len(self.volumes)}"
        self.volumes.append({"name": name, **source})
        self.mounts.append({"name": name, **mount})


@dataclass(frozen=True, slots=True)
class Storage:
    """Named volumes of a document.  ``declared``: its section; ``names``: key -> name of the claim."""

    declared: Mapping[str, Any]
    names: Mapping[str, str]

    def is_memory(self, key: str) -> bool:
        """Return whether a volume is a tmpfs."""
        options = (self.declared.get(key) or {}).get("driver_opts") or {}
        return options.get("type") == "tmpfs"


def volumes_of(
    name: str,
    entry: Mapping[str, Any],
    document: Mapping[str, Any],
    storage: Storage,
    sources: Sources,
    names: Names,
    said: Said,
) -> Volumes:
    """Return the volumes of a service.  ``names``: of ConfigMaps and Secrets."""
    volumes = Volumes()
    contents: list[Content] = []
    for mount in _read(name, entry, said):
        match mount.kind:
            case "volume":
                _volume(name, mount, storage, volumes, said)
            case "tmpfs":
                _memory(name, mount.target, str(mount.options.get("size") or ""), mount.options, volumes, said)
            case _:
                _bind(name, mount, sources, contents, volumes, said)
    for section in ("configs", "secrets"):
        contents += _declared(name, entry, document, section, sources, volumes, said)
    for content in _merged(contents):
        _content(name, content, names, volumes, said)
    for text in members(entry.get("tmpfs")):
        path, _, options = str(text).partition(":")
        given = dict(option.partition("=")[::2] for option in options.split(",") if option)
        _memory(name, path, given.get("size", ""), given, volumes, said)
    if entry.get("shm_size"):
        volumes.add(_in_memory(memory(entry["shm_size"])), mountPath="/dev/shm")
    return volumes


def _read(name: str, entry: Mapping[str, Any], said: Said) -> Iterator[Mount]:
    for given in members(entry.get("volumes")):
        try:
            yield read_mount(given)
        except NotUnderstood as reason:
            said.refuse(name, "volumes", f"{given}: {reason}")


# --------------------------------------------------------------------------- volumes


def _volume(name: str, mount: Mount, storage: Storage, volumes: Volumes, said: Said) -> None:
    place: dict[str, Any] = {"mountPath": mount.target} | ({"readOnly": True} if mount.read_only else {})
    if not mount.source:
        volumes.add({"emptyDir": {}}, **place)
        said.say(name, f"volumes: {mount.target}", "a volume without a name: its data are lost with each new pod")
        return
    if storage.is_memory(mount.source):
        _memory(name, mount.target, "", {}, volumes, said)
        return
    inside = posixpath.join(_SUBDIRECTORY, str(mount.options.get("subpath") or "")).rstrip("/")
    volumes.add({"persistentVolumeClaim": {"claimName": storage.names[mount.source]}}, **place, subPath=inside)
    volumes.claims.append(mount.source)
    if not mount.options.get("nocopy"):
        said.say(name, f"volumes: {mount.target}", "Docker fills a new volume with what the image has there, and gives "
                 "it that directory's owner; Kubernetes does neither")  # fmt: skip


def _memory(name: str, target: str, size: str, options: Mapping[str, Any], volumes: Volumes, said: Said) -> None:
    limit = "" if not size or size.endswith("%") else memory(size)
    volumes.add(_in_memory(limit), mountPath=target)
    rest = [option for option in ("mode", "uid", "gid", "nr_inodes", "exec", "noexec", "ro") if option in options]
    rest += ["size"] if size and not limit else []
    if rest:
        said.say(name, f"tmpfs: {target}", f"{', '.join(rest)}: no counterpart in a volume in memory")


def _in_memory(size: str) -> dict[str, Any]:
    return {"emptyDir": {"medium": "Memory", **({"sizeLimit": size} if size else {})}}


# --------------------------------------------------------------------------- files


def _bind(name: str, mount: Mount, sources: Sources, contents: list[Content], volumes: Volumes, said: Said) -> None:
    key, shown = f"volumes: {mount.target}", mount.source.rstrip("/").rpartition("/")[2]
    try:
        tree = sources.tree(mount.source)
    except NotCarried as reason:
        said.refuse(name, key, f"{shown} is {reason}")
        return
    if tree.is_directory and not tree.files:
        volumes.add({"emptyDir": {}}, mountPath=mount.target)
        said.say(name, key, f"{shown} is an empty directory of the machine: here its files are lost with each new pod")
    elif tree.is_directory and not mount.read_only:
        said.refuse(name, key, f"{shown} is a directory in which the service may write: mount it read-only (`:ro`) "
                    "where it holds configuration, and as a named volume where it holds data")  # fmt: skip
    else:
        contents.append(Content(mount.target, tree, _looks_secret(tree)))
        if not mount.read_only:
            said.say(name, key, f"{shown} could be written there; from a ConfigMap it is read-only")


def _looks_secret(tree: Tree) -> bool:
    texts = [_UPSTREAM.sub("", file.text or "") for file in tree.files.values()]
    return any(text_without_secrets(text) != text for text in texts)


def _declared(
    name: str,
    entry: Mapping[str, Any],
    document: Mapping[str, Any],
    section: str,
    sources: Sources,
    volumes: Volumes,
    said: Said,
) -> Iterator[Content]:
    """Yield the compose configs, or secrets, of a service, at the places where it reads them."""
    for given in members(entry.get(section)):
        wanted = given if isinstance(given, Mapping) else {"source": given}
        source = str(wanted.get("source"))
        target = posixpath.join("/" if section == "configs" else _SECRETS, str(wanted.get("target") or source))
        about = (document.get(section) or {}).get(source) or {}
        if wanted.get("uid") or wanted.get("gid"):
            said.say(
                name,
                f"{section}: {source}",
                "uid and gid have no counterpart; files of a ConfigMap or Secret are root's",
            )
        if about.get("external"):
            own = str(about.get("name") or source)
            kind = {"configMap": {"name": own}} if section == "configs" else {"secret": {"secretName": own}}
            volumes.add(kind, mountPath=target, subPath=source, readOnly=True)
            made = "ConfigMap" if section == "configs" else "Secret"
            said.say(name, f"{section}: {source}", f"make the {made} {own}, with the key {source}, before")
            continue
        try:
            if isinstance(about.get("content"), str):
                tree = Tree({"": File(about["content"].encode())}, is_directory=False)
            elif isinstance(about.get("file"), str):
                tree = sources.tree(about["file"])
            else:
                raise NotCarried("made of a variable, or of nothing that is known here")
        except NotCarried as reason:
            said.refuse(name, f"{section}: {source}", f"it is {reason}")
            continue
        mode = str(wanted.get("mode") or "")
        if re.fullmatch(r"(0o?)?[0-7]{3,4}", mode) and not tree.is_directory:
            tree = replace(tree, files={"": replace(tree.files[""], mode=int(mode.replace("o", ""), 8))})
        yield Content(target, tree, section == "secrets")


def _merged(contents: list[Content]) -> list[Content]:
    """Put files that are mounted inside of a mounted directory into its tree; of two at one place the last counts."""
    at = {posixpath.normpath(content.target): content for content in contents}
    kept: dict[str, Content] = {}
    for path, content in sorted(at.items()):  # a directory comes before what is inside of it
        above = next(
            (kept[p] for p in kept if path.startswith(f"{p.rstrip('/')}/") and kept[p].tree.is_directory), None
        )
        if above is None:
            kept[path] = content
            continue
        inside = posixpath.relpath(path, posixpath.normpath(above.target))
        own = {posixpath.join(inside, name) if name else inside: file for name, file in content.tree.files.items()}
        above.tree = replace(above.tree, files={**above.tree.files, **own})
        above.secret |= content.secret
    return list(kept.values())


def _content(name: str, content: Content, names: Names, volumes: Volumes, said: Said) -> None:
    """Add the ConfigMap or the Secret of a mount."""
    keys, used = {}, Names()
    files = dict(sorted(content.tree.files.items()))
    for path in files:
        wanted = path or posixpath.basename(content.target)
        plain = re.sub(r"[^-._a-zA-Z0-9]", "-", wanted.replace("/", "--"))[:200].lstrip(".") or "file"
        key, number = plain, 1
        while key in used.given:
            number += 1
            key = f"{plain}-{number}"
        used.given.add(key)
        keys[path] = key
    if sum(len(keys[path]) + len(file.data) for path, file in files.items()) > MOST:
        said.refuse(name, f"volumes: {content.target}", "larger than the 1 MiB that a ConfigMap holds")
        return
    own = names.new(f"{name}-{content.target.strip('/')}")
    volumes.objects.append(_object(own, {keys[path]: file for path, file in files.items()}, secret=content.secret))
    items = [
        {"key": keys[path], "path": path or keys[path], **({} if file.mode == PLAIN else {"mode": file.mode})}
        for path, file in files.items()
    ]
    source: dict[str, Any] = (
        {"secret": {"secretName": own, "items": items}}
        if content.secret
        else {"configMap": {"name": own, "items": items}}
    )
    single = {} if content.tree.is_directory else {"subPath": keys[""]}
    volumes.add(source, mountPath=content.target, **single, readOnly=True)


def _object(name: str, files: Mapping[str, File], *, secret: bool) -> dict[str, Any]:
    texts = {key: text for key, file in files.items() if (text := file.text) is not None}
    binary = {key: base64.b64encode(file.data).decode() for key, file in files.items() if key not in texts}
    kind, plain, encoded = ("Secret", "stringData", "data") if secret else ("ConfigMap", "data", "binaryData")
    parts = {plain: texts, encoded: binary}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **{k: v for k, v in parts.items() if v}}
