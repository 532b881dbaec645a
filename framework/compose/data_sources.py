"""The check of the data that an application asks to start from: a running stack's, or a directory's.

They are the user's own, so the operator has to allow them like an external volume, unless they are the application's.
"""

from __future__ import annotations

from collections.abc import Collection

from framework.compose.checking import Check, Refusal
from framework.compose.interpolation import NO_VARIABLES
from framework.model import Application


def refused_sources(application: Application, allowed: Collection[str]) -> tuple[Refusal, ...]:
    """Return why the data that the application names may not be read; empty where they may.

    ``allowed``: entries "application:place".
    """
    source = application.data_source
    if source is None:
        return ()
    check = Check(application.name, application.directory, application.roots, None, frozenset(allowed), NO_VARIABLES)
    if source.project:
        check.refuse(
            f"dataset.project: {source.project}",
            "the data of a stack that is not the study's; where it is allowed, they are copied",
        )
    for volume, path in source.directories.items():
        check.directory(f"dataset.directories.{volume}: {path}", str(path))
    return tuple(check.refused.values())
