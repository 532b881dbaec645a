"""Files that a document mounts: those that Tailor rendered, and the application's own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from framework.config.reading import read_bytes
from framework.errors import FileError

MOST = 2**20
"""Bytes that a ConfigMap or a Secret holds at most, names and contents together."""
MOST_FILES = 1_000
EXECUTABLE, PLAIN = 0o755, 0o644


class NotCarried(Exception):
    """A path whose content cannot be part of manifests; the message completes "it is ..."."""


@dataclass(frozen=True, slots=True)
class File:
    """A file's content and its permissions."""

    data: bytes
    mode: int = PLAIN

    @property
    def text(self) -> str | None:
        """The content as text; None where it is not UTF-8, or holds what YAML cannot write."""
        try:
            text = self.data.decode()
        except UnicodeDecodeError:
            return None
        return text if all(character.isprintable() or character in "\n\t" for character in text) else None


@dataclass(frozen=True, slots=True)
class Tree:
    """A mounted path: a file, or a directory with its files by their paths below it."""

    files: Mapping[str, File]
    is_directory: bool


@dataclass(frozen=True, slots=True)
class Sources:
    """Reads mounted paths.  ``rendered``: path below the deployment -> text.  ``roots``: readable directories."""

    rendered: Mapping[str, str] = field(default_factory=dict)
    roots: Sequence[Path] = ()

    def tree(self, path: str) -> Tree:
        """Return the content of a path as a document names it.  Raises NotCarried."""
        name = path.removeprefix("./")
        if name in self.rendered:
            return Tree({"": File(self.rendered[name].encode())}, is_directory=False)
        source = Path(path)
        if not source.is_absolute() or not self._ours(source):
            raise NotCarried("a path of the machine, outside of the application's directory")
        if not source.exists():
            return Tree({}, is_directory=True)  # Docker makes a directory there
        if not source.is_dir():
            return Tree({"": self._file(source)}, is_directory=False)
        files = {str(path_below.relative_to(source)): self._file(path_below) for path_below in _below(source)}
        if sum(len(name) + len(file.data) for name, file in files.items()) > MOST:
            raise NotCarried("larger than the 1 MiB that a ConfigMap holds")
        return Tree(files, is_directory=True)

    def text(self, path: str) -> str:
        """Return the text of a file.  Raises NotCarried."""
        tree = self.tree(path)
        text = tree.files[""].text if not tree.is_directory else None
        if text is None:
            raise NotCarried("no text file")
        return text

    def _file(self, path: Path) -> File:
        if not self._ours(path):
            raise NotCarried(f"a link that leads out of the application's directory ({path.name})")
        try:
            data = read_bytes(path, MOST)
            mode = EXECUTABLE if path.stat().st_mode & 0o100 else PLAIN
        except (FileError, OSError) as error:
            raise NotCarried(f"not readable as a file of at most 1 MiB ({path.name})") from error
        return File(data, mode)

    def _ours(self, path: Path) -> bool:
        real = path.resolve()
        return any(path.is_relative_to(root) and real.is_relative_to(root.resolve()) for root in self.roots)


def _below(directory: Path) -> list[Path]:
    """Return the files below a directory, in the order of their names.  Raises NotCarried where there are too many."""
    paths: list[Path] = []
    for where, directories, names in os.walk(directory):
        directories.sort()
        linked = [name for name in directories if Path(where, name).is_symlink()]
        if linked:
            raise NotCarried(f"a directory with a link to another one ({linked[0]})")
        paths += [Path(where, name) for name in sorted(names)]
        if len(paths) > MOST_FILES:
            raise NotCarried(f"a directory of more than {MOST_FILES} files")
    return paths
