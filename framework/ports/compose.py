"""The reader of compose files: the user's own tool resolves what is more than one complete file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ComposeSource:
    """The compose files of an application, as its user names them to compose.

    ``files``: in the order of ``-f``.  ``directory``: the project's directory, from which relative paths start.
    ``env_files``: ``--env-file``; none: compose reads ``.env``.  ``profiles``: ``--profile``.
    """

    files: tuple[Path, ...]
    directory: Path
    env_files: tuple[Path, ...] = ()
    profiles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResolvedCompose:
    """Compose files as compose itself reads them.

    ``document``: merged, interpolated (a dollar is written twice), with absolute paths, and with the variables of
    environment files.  ``environments``: service -> variable -> value.  ``unset``: variables without a value, which
    became empty.
    """

    document: Mapping[str, Any]
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unset: Sequence[str] = ()


class ComposeReader(Protocol):
    """Reads compose files as compose does; no engine is needed."""

    def resolve(self, source: ComposeSource) -> ResolvedCompose:
        """Resolve the files.  Raises FileError where compose refuses them, MissingPrerequisite without compose v2."""
