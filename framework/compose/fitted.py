"""Parameters as they fit one service: its arguments filled in, its spelling of a flag, the files that have the lines.

A value may stand in a flag or in a variable, and a line in any file of a directory; which one, only the service says.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from framework.compose.arguments import filled_in
from framework.compose.command import Command
from framework.compose.files import fitting, mount_parts, with_absolute_paths
from framework.compose.service_files import GivenFiles, configs_of, file_text
from framework.model import UNKNOWN_COMMAND, Application, Edit, ParameterDefinition, Service, ServiceType


def fitted(
    application: Application, types: Mapping[str, ServiceType], service: Service
) -> tuple[Application, Mapping[str, ServiceType], Service]:
    """Return the application, the types and a service with parameters as they fit it.

    They are what ``parameters_of`` wants.  Raises UnknownName, InputError.
    """
    application, types, service = filled_in(application, types, service)
    files = FilesOf(application, service)
    kind = types.get(service.type) if service.type else None
    if kind is not None:
        parameters = tuple(_fitted(application, service, files, parameter) for parameter in kind.parameters)
        types = {**types, service.type: replace(kind, parameters=parameters)}
    own = tuple(_fitted(application, service, files, parameter) for parameter in service.parameters)
    return application, types, replace(service, parameters=own)


def wanted_paths(parameters: Iterable[ParameterDefinition]) -> Iterator[str]:
    """Yield the paths of files that parameters stand in, also those with ``*`` in their last part."""
    for parameter in parameters:
        for edit in parameter.apply.edits:
            yield from (edit.path, *edit.also)


def wanted_directories(parameters: Iterable[ParameterDefinition]) -> Iterator[str]:
    """Yield the directories in which parameters make files."""
    for parameter in parameters:
        for edit in parameter.apply.edits:
            if edit.create:
                yield from map(posixpath.dirname, (edit.path, *edit.also))


def _fitted(
    application: Application, service: Service, files: FilesOf, parameter: ParameterDefinition
) -> ParameterDefinition:
    apply = parameter.apply
    if apply.flags:
        command = Command.of(application.compose["services"][service.name], "", application.images.get(service.name))
        spellings = (*([apply.template] if apply.kind == "flag" else []), *apply.flags)
        given = next((template for template in spellings if command.find(template) is not None), None)
        if given is not None:
            name = apply.name if apply.kind == "flag" else UNKNOWN_COMMAND
            return replace(parameter, apply=replace(apply, kind="flag", name=name, template=given, separator=""))
    if any(edit.also for edit in apply.edits):
        edits = tuple(changed for edit in apply.edits for changed in files.changes(edit))
        return replace(parameter, apply=replace(apply, edits=edits))
    return parameter


class FilesOf:
    """The files that one service sees, as far as they are known."""

    def __init__(self, application: Application, service: Service) -> None:
        entry = with_absolute_paths(application.compose["services"][service.name], application.base)
        self._service = service.name
        self._volumes: list[Any] = list(entry.get("volumes") or [])
        self._image = application.images.get(service.name)
        templates = {path: template.text for path, template in service.templates.items()}
        self._given = GivenFiles(configs_of(application, service.name), templates)

    def changes(self, edit: Edit) -> Sequence[Edit]:
        """Return an edit for each file that it fits; where it fits none, the one that says so, if it has a value."""
        if edit.create:
            path = next(filter(self.in_directory, (edit.path, *edit.also)), edit.path)
            return (replace(edit, path=path, also=()),)
        if not edit.also:
            return (edit,)
        paths = sorted({path for pattern in (edit.path, *edit.also) for path in self._matching(pattern)})
        changes = [replace(edit, path=path, also=()) for path in paths if self._fits(path, edit)]
        return changes or ([replace(edit, also=())] if "{value}" in edit.line else [])

    def in_directory(self, path: str) -> bool:
        """Return whether a file's directory is there, as far as it is known: where the image is not here, it is."""
        directory = posixpath.dirname(path)
        targets = [mount_parts(mount)[1] for mount in self._volumes]
        mounted = any(_below(directory, target) or posixpath.dirname(target) == directory for target in targets)
        given = any(posixpath.dirname(other) == directory for other in (*self._given.configs, *self._given.templates))
        return self._image is None or directory in self._image.directories or mounted or given

    def _fits(self, path: str, edit: Edit) -> bool:
        text = file_text(self._service, self._volumes, path, self._image, self._given)
        lines = fitting(text, edit).splitlines() if text is not None else []
        return any(re.search(edit.pattern, line) or (edit.after and re.search(edit.after, line)) for line in lines)

    def _matching(self, pattern: str) -> Iterator[str]:
        """Yield the paths of files that a pattern matches; ``*`` stands for text without a slash."""
        directory = posixpath.dirname(pattern)
        known = [*self._given.configs, *self._given.templates, *(self._image.files if self._image is not None else ())]
        for mount in self._volumes:
            source, target, _ = mount_parts(mount)
            known.append(target)
            inside = posixpath.relpath(directory, target) if source and _below(directory, target) else None
            if inside is not None and (folder := Path(source.replace("$$", "$"), inside)).is_dir():
                known += [posixpath.join(directory, path.name) for path in folder.iterdir() if path.is_file()]
        for path in known:
            if posixpath.dirname(path) == directory and fnmatch.fnmatchcase(path, pattern):
                yield path


def _below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
