"""One entry of a service's ``volumes``, read strictly: both forms of it become the long form, or it is refused.

An entry that is not fully understood is never passed on, since compose might read it in another way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

_VOLUME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_SHORT = re.compile(r"(?P<source>[^:]+):(?P<target>/[^:]*)(?::(?P<modes>[A-Za-z,]+))?")
_TARGET = re.compile(r"/[^:\x00-\x1f]*")
SELINUX = frozenset({"z", "Z"})  # would relabel the user's files
_PLAIN = frozenset({"ro", "rw", "cached", "delegated", "consistent", "nocopy", "rprivate", "private"}) | SELINUX


class NotUnderstood(Exception):
    """An entry that has no form known to be harmless; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount.  ``source``: a volume's key, a path as written, or empty for an anonymous volume and for a tmpfs.

    ``relabelled``: the entry asks for new SELinux labels.  ``options``: of a tmpfs or a volume, as compose names them.
    """

    kind: Literal["volume", "bind", "tmpfs"]
    source: str
    target: str
    read_only: bool = False
    relabelled: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def entry(self, **changes: Any) -> dict[str, Any]:
        """Return the long form that compose reads, with ``changes``."""
        written: dict[str, Any] = {"type": self.kind, "target": self.target}
        if self.source:
            written["source"] = self.source
        if self.read_only:
            written["read_only"] = True
        if self.options:
            written[self.kind] = dict(self.options)
        return written | changes


def read_mount(entry: object) -> Mount:
    """Read an entry of ``volumes``.  Raises NotUnderstood."""
    if isinstance(entry, Mapping):
        return _long(entry)
    text = str(entry)
    if _TARGET.fullmatch(text):
        return Mount("volume", "", text)
    short = _SHORT.fullmatch(text)
    if short is None:
        raise NotUnderstood("not of the form SOURCE:TARGET[:MODE]")
    modes = set(filter(None, (short["modes"] or "").split(",")))
    if modes - _PLAIN:
        raise NotUnderstood(f"the mode {', '.join(sorted(modes - _PLAIN))}")
    kind = _kind(short["source"])
    options = {"nocopy": True} if "nocopy" in modes and kind == "volume" else {}
    return Mount(kind, short["source"], short["target"], "ro" in modes, bool(modes & SELINUX), options)


def _kind(source: str) -> Literal["volume", "bind"]:
    if source.startswith(("/", "./", "../", "~")) or source in (".", ".."):
        return "bind"
    if _VOLUME.fullmatch(source):
        return "volume"
    raise NotUnderstood("a source that is neither a volume's name nor a path")


def _long(entry: Mapping[Any, Any]) -> Mount:
    kind = entry.get("type")
    if kind not in ("volume", "bind", "tmpfs"):
        raise NotUnderstood(f"the type {kind!r}")
    for key in entry:
        if key not in ("type", "source", "target", "read_only", "consistency", kind) and not str(key).startswith("x-"):
            raise NotUnderstood(f"the key {key!r} of a mount")
    target, source = str(entry.get("target", "")), str(entry.get("source") or "")
    if not _TARGET.fullmatch(target):
        raise NotUnderstood("a target that is no absolute path")
    fits = {
        "bind": bool(source) and not _VOLUME.fullmatch(source) and _kind(source) == "bind",
        "volume": not source or _VOLUME.fullmatch(source) is not None,
        "tmpfs": not source,
    }
    if not fits[kind]:
        raise NotUnderstood("a source that does not belong to its type")
    read_only = _flag(entry.get("read_only"), "read_only")
    return Mount(kind, source, target, read_only, *_options(kind, entry.get(kind) or {}))


def _options(kind: str, given: object) -> tuple[bool, dict[str, Any]]:
    """Return whether SELinux labels are asked for, and the options that compose gets.  Raises NotUnderstood."""
    if not isinstance(given, Mapping):
        raise NotUnderstood(f"options of a {kind} that are no mapping")
    allowed = {
        "bind": {"create_host_path", "propagation", "selinux"},
        "volume": {"nocopy", "subpath"},
        "tmpfs": {"size", "mode"},
    }[kind]
    for key in given:
        if key not in allowed:
            raise NotUnderstood(f"the option {key!r} of a {kind}")
    if kind == "bind":
        if given.get("propagation") not in (None, "rprivate", "private"):
            raise NotUnderstood(f"the propagation {given['propagation']!r}")
        return bool(given.get("selinux")), {}
    if ".." in str(given.get("subpath", "")).split("/"):
        raise NotUnderstood("a subpath that leads out of its volume")
    return False, dict(given)


def _flag(value: object, name: str) -> bool:
    """Read a boolean, also written as text, as compose does.  Raises NotUnderstood."""
    if value in (None, False, "false", ""):
        return False
    if value in (True, "true"):
        return True
    raise NotUnderstood(f"{name}: {value!r}")
