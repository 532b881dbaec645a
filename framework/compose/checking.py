"""The check of one compose document: a record of everything that was refused, left out and copied so far.

``framework.compose.allow_list`` has the rules, ``framework.compose.safety`` walks the document.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framework.compose.interpolation import OWN, InterpolationError, Variables, interpolated
from framework.compose.mounts import Mount, NotUnderstood, read_mount

COPIES = "copies"  # below the deployment's directory: copies of the user's files that a service may write
_EVERYWHERE = ("/etc/localtime", "/etc/timezone")  # files that any container may read
_BRACED = re.compile(r"\$\{(\w+)")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused part of a document.  ``place``: its name in TAILOR_ALLOW.  ``why``: the reason.

    ``remedy``: how the operator allows it, or how to write it instead.
    """

    place: str
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.place} ({self.why}; {self.remedy})"


@dataclass(frozen=True, slots=True)
class Copied:
    """The user's data that a service works on a copy of: a directory of this machine, or a volume."""

    path: str = ""
    volume: str = ""

    def __str__(self) -> str:
        return f"the directory {self.path}" if self.path else f"the volume {self.volume}"


@dataclass
class Check:
    """The check of one document.  ``base``: the directory that relative paths start from.

    ``roots``: directories whose files may be mounted.  ``own``: the deployment's own directory.  ``allowed``: entries
    "application:place".
    """

    application: str
    base: Path
    roots: tuple[Path, ...]
    own: Path | None
    allowed: frozenset[str]
    variables: Variables
    project: str = ""  # the user's own, after which compose names volumes and networks
    declared: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # section -> name -> its entry
    refused: dict[str, Refusal] = field(default_factory=dict)  # by place
    left_out: dict[str, dict[str, None]] = field(default_factory=dict)  # kind -> names, in order
    data: dict[str, Copied] = field(default_factory=dict)  # volume -> the data that are copied into it
    files: dict[str, Path] = field(default_factory=dict)  # name below the deployment's directory -> file
    copies: dict[str, dict[str, Any]] = field(default_factory=dict)  # volumes that replace directories

    # ------------------------------------------------------------------ notes

    def refuse(self, place: str, why: str, remedy: str = "") -> bool:
        """Note a refusal, and return True; False: the operator has allowed it."""
        if f"{self.application}:{place}" in self.allowed:
            return False
        remedy = remedy or f"the operator can allow it: TAILOR_ALLOW='{self.application}:{place}'"
        self.refused.setdefault(place, Refusal(place, why, remedy))
        return True

    def leave_out(self, kind: str, name: str) -> None:
        """Note that a study leaves something out."""
        self.left_out.setdefault(kind, {})[name] = None

    # ------------------------------------------------------------------ variables

    def filled(self, value: Any, place: str) -> Any:
        """Fill in the variables of a value."""
        if isinstance(value, Mapping):
            return {str(key): self.filled(item, f"{place}.{key}") for key, item in value.items()}
        if isinstance(value, list):  # a text that cannot be filled in is refused and left out
            return [new for item in value if (new := self.filled(item, place)) is not None or item is None]
        return self._text(value, place) if isinstance(value, str) else value

    def _text(self, text: str, place: str) -> str | None:
        if "\0" in text:
            self.refuse(place, "a NUL character", "leave it out")
            return None
        if "$" not in text:
            return text
        unset: set[str] = set()
        try:
            result = interpolated(text, self.variables, unset)
        except InterpolationError as error:
            self.refuse(place, error.reason, how_to_pass(error.variable))
            return None
        for name in sorted(unset):
            self.leave_out("unset", name)
        for name in _BRACED.findall(text):
            if name in self.variables.withheld and not name.startswith(OWN):
                self.leave_out("withheld", name)
        return result

    # ------------------------------------------------------------------ files of this machine

    def path(self, source: str) -> str:
        """Make a path of the document absolute."""
        return os.path.normpath(self.base / os.path.expanduser(source))  # noqa: PTH111 - Path's raises without a home

    def not_readable(self, path: str, *, needed: bool = True) -> str:
        """Return why a file may not be read; empty where it may.  ``needed``: it also has to exist."""
        if not self._inside(path):
            return "outside of the application's directory"
        kinds = ("file",) if needed else ("file", "nothing")
        return "" if _kind(path) in kinds else "no regular file"

    def _inside(self, path: str) -> bool:
        """Return whether a path, with all links followed, is below a directory whose files may be mounted."""
        return any(_below(path, root) for root in self.roots)

    def directory(self, place: str, path: str) -> None:
        """Refuse a directory that data are to be copied from, unless it is the application's or allowed."""
        if _kind(path) != "directory":
            self.refuse(place, "there is no such directory", "put it there, or name another")
        elif not self._inside(path):
            self.refuse(place, "outside of the application's directory; where it is allowed, it is copied")

    def mount(self, service: str, entry: Any) -> dict[str, Any] | None:
        """Return an entry of ``volumes`` in its long form; None where it is refused."""
        place = f"services.{service}.volumes: {_brief(entry)}"
        try:
            mount = read_mount(entry)
        except NotUnderstood as error:
            self.refuse(place, str(error), "write it in compose's long form")
            return None
        if mount.relabelled:
            self.leave_out("selinux", service)
        if mount.kind == "bind":
            return self._bind(place, mount)
        if mount.kind == "volume" and mount.source and mount.source not in self.declared["volumes"]:
            self.refuse(place, f"the volume {mount.source} is not declared", "declare it under volumes")
        return mount.entry()

    def _bind(self, place: str, mount: Mount) -> dict[str, Any] | None:
        path = self.path(mount.source)
        if self.own is not None and _below(path, self.own):
            return mount.entry(source=f"./{os.path.relpath(path, self.own)}")
        inside = self._inside(path) or (mount.read_only and path in _EVERYWHERE)
        if not inside and self.refuse(place, "outside of the application's directory"):
            return None
        kind = _kind(path)
        if kind == "other":  # a socket or a device, which has no copy
            return None if self.refuse(place, "neither a file nor a directory") else mount.entry(source=path)
        if mount.read_only:
            if kind == "nothing":
                self.refuse(place, "there is no such file", "put it there")
                return None
            return mount.entry(source=path)
        digest = hashlib.sha256(path.encode()).hexdigest()[:8]
        if kind == "file":
            name = f"{COPIES}/{digest}-{Path(path).name}"
            self.files[name] = Path(path)
            return mount.entry(source=f"./{name}")
        key = f"{COPIES}-{digest}"
        self.copies[key] = {}
        if kind == "directory":
            self.data[key] = Copied(path=path)  # else the volume is empty, and no directory is made
        return {"type": "volume", "source": key, "target": mount.target, "volume": {"nocopy": True}}


def how_to_pass(variable: str) -> str:
    """Return the remedy for a variable that a compose file does not get."""
    if not variable:
        return "write a dollar as $$"
    if variable.startswith(OWN):
        return "no compose file sees Tailor's settings"
    return f"the operator can pass it on: TAILOR_VARIABLES={variable}"


def _below(path: str, directory: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory))


def _kind(path: str) -> str:
    """Return "nothing", "file", "directory" or, for a socket, a device or a closed folder, "other"."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return "nothing"
    except OSError:
        return "other"
    return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


def _brief(entry: Any) -> str:
    """Return the name of a mount in TAILOR_ALLOW and in messages: its source."""
    if isinstance(entry, Mapping):
        return str(entry.get("source") or entry.get("target") or "")[:200]
    return (str(entry).split(":")[0] or str(entry))[:200]
