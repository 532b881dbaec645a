"""The user's files that a deployed document names, so that an export can be started on another machine.

Configuration files, environment files, secrets, read-only directories and the sources of images are copied beside the
document, which then names the copies.  Data that services write are not: a copy of a database that runs is worth
nothing, so that the reader is told what to bring.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framework.errors import InputError
from framework.ports.builds import BUILT

COPIES = "app"
"""Directory of the copies below the export's own."""
LARGEST = 64 << 20  # bytes of a directory that is copied
OWN_IMAGES = "tailor/"
_REMOTE = ("http://", "https://", "git@", "git://", "ssh://", "github.com/", "docker-image://", "service:")


@dataclass
class Bundle:
    """The needs of an export besides its documents.

    ``base``: the directory that the document's paths came from.  ``roots``: directories whose files may be copied.
    ``copied``: name below the export -> file or directory.  ``brought``: the same of data and of directories that are
    too large to copy.  ``expected``: paths that the other machine has to have.  ``secret``: names of copies that may
    hold passwords.  ``built``: services whose images are built from copies.  ``images``: images of Tailor's own.
    """

    base: Path
    roots: Sequence[Path]
    copied: dict[str, Path] = field(default_factory=dict)
    brought: dict[str, Path] = field(default_factory=dict)
    expected: list[str] = field(default_factory=list)
    secret: list[str] = field(default_factory=list)
    built: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)

    def document(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a document that names copies, and note what has to be copied."""
        moved = {**document, "services": {n: self._service(n, entry) for n, entry in document["services"].items()}}
        for section in ("configs", "secrets"):
            if isinstance(document.get(section), Mapping):
                moved[section] = {name: self._source(entry, section) for name, entry in document[section].items()}
        return moved

    def write(self, directory: Path) -> None:
        """Copy the files below ``directory``.  Raises InputError where one cannot be read."""
        for name, source in sorted(self.copied.items()):
            target = directory / name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                if source.is_dir():
                    left_out = _leaving_out(directory)
                    shutil.copytree(source, target, symlinks=True, ignore=left_out, dirs_exist_ok=True)
                else:
                    shutil.copy2(source, target)
            except (OSError, shutil.Error) as error:
                raise InputError(f"{source} cannot be copied to {target}: {error}") from error

    @property
    def instructions(self) -> list[str]:
        """The things to know before it is started elsewhere, a sentence each."""
        lines = [f"Bring the data: copy {source} to ./{name}, while nothing writes to it."
                 for name, source in self.brought.items()]  # fmt: skip
        lines += [f"The machine needs {path}." for path in self.expected]
        if self.built:
            lines.append(f"Built from the copies of their sources at the first start: {', '.join(self.built)}.")
        if self.images:
            lines.append(f"Images of Tailor's own, which `make images` builds: {', '.join(self.images)}.")
        if self.secret:
            lines.append(f"Passwords may stand in {', '.join(self.secret)}: keep them as you keep yours.")
        return lines

    # ------------------------------------------------------------------ services

    def _service(self, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        moved = dict(entry)
        image = str(entry.get("image") or "")
        if entry.get("build"):
            moved["build"] = self._build(name, entry["build"])
            if image.startswith(BUILT):
                del moved["image"]
        if image.startswith(OWN_IMAGES) and image not in self.images:
            self.images.append(image)
        if entry.get("volumes"):
            moved["volumes"] = [self._mount(mount) for mount in entry["volumes"]]
        for key in ("env_file", "label_file"):
            if entry.get(key):
                moved[key] = self._files(entry[key])
        return moved

    def _build(self, service: str, build: Any) -> Any:
        context = str(build.get("context") or ".") if isinstance(build, Mapping) else str(build)
        if context.startswith(_REMOTE):
            return build
        self.built.append(service)
        place = self._place(context)
        return {**build, "context": place} if isinstance(build, Mapping) else place

    def _mount(self, mount: Any) -> Any:
        if isinstance(mount, Mapping):
            if mount.get("type") != "bind":
                return mount
            return {**mount, "source": self._place(str(mount["source"]), data=not mount.get("read_only"))}
        source, separator, rest = str(mount).partition(":")
        if not separator or not source.startswith(("/", "~", "$")):
            return mount  # a volume, or one of the rendered files
        writable = "ro" not in rest.partition(":")[2].split(",")
        return f"{self._place(source, data=writable)}:{rest}"

    def _files(self, files: Any) -> Any:
        if isinstance(files, list):
            return [self._files(file) for file in files]
        path = str(files["path"] if isinstance(files, Mapping) else files)
        place = self._place(path, secret=True)
        return {**files, "path": place} if isinstance(files, Mapping) else place

    def _source(self, entry: Any, section: str) -> Any:
        if isinstance(entry, Mapping) and isinstance(entry.get("file"), str):
            return {**entry, "file": self._place(entry["file"], secret=section == "secrets")}
        return entry

    # ------------------------------------------------------------------ paths

    def _place(self, path: str, *, data: bool = False, secret: bool = False) -> str:
        """Return the path of a copy, and note it; a path of the machine's own stays.

        ``data``: a service writes there, so that a directory is not copied.
        """
        source = Path(path.replace("$$", "$"))
        root = next((root for root in (self.base, *self.roots) if _below(source, root)), None)
        if root is None:
            if path not in self.expected:
                self.expected.append(path)
            return path
        name = os.path.normpath(f"{COPIES}/{source.relative_to(root)}")
        if (data and not source.is_file()) or (source.is_dir() and _size(source) > LARGEST):
            self.brought[name] = source
        elif source.exists():
            self.copied[name] = source
            if secret and name not in self.secret:
                self.secret.append(name)
        return f"./{name}".replace("$", "$$")


def _below(path: Path, root: Path) -> bool:
    """Return whether a path is below a directory, as written and with all links followed."""
    return path.is_relative_to(root) and path.resolve().is_relative_to(root.resolve())


def _size(directory: Path) -> int:
    """Return the bytes of a directory's files; unreadable ones count as too large."""
    total = 0
    try:
        for path in directory.rglob("*"):
            if path.is_file() and not path.is_symlink():
                total += path.stat().st_size
            if total > LARGEST:
                break
    except OSError:
        return LARGEST + 1
    return total


def _leaving_out(directory: Path) -> Any:
    """Return an ignore function of copytree: without version control, and without the export itself."""
    export = directory.resolve()
    return lambda where, names: [n for n in names if n == ".git" or (Path(where) / n).resolve() == export]
