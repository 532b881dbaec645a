"""The configuration files that a service sees, with the values of its parameters written into them.

A file is one of the application's templates, a config of the compose file, mounted, inside the image, or new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framework.compose.amounts import written
from framework.compose.files import Mounted, edited, mounted, remounted
from framework.config.key_paths import NoPlace
from framework.config.keyed_files import values_at
from framework.config.reading import read_text
from framework.errors import FileError, InputError
from framework.model import Application, Edit, ImageFacts, ParameterDefinition, Passed
from optimizer.space import Value


@dataclass(frozen=True, slots=True)
class Setting:
    """A parameter with the value it gets.

    ``written``: False leaves the service as it is, because the server has this value by itself.
    ``own``: the value is the application's (``fixed``), so the compose file may already set another one.
    ``present``: the user's files set the parameter, to its default; another value takes the place of that one.
    """

    parameter: ParameterDefinition
    value: Value
    written: bool
    own: bool = False
    present: bool = False

    @property
    def text(self) -> str:
        """The value as the server reads it."""
        return written(self.parameter.apply, self.value)


@dataclass(frozen=True, slots=True)
class GivenFiles:
    """Files of a service that are not in its ``volumes``: path in the container -> text.

    ``templates`` have their values already.  ``shown``: ``service.parameter`` -> what shows its value, of those that
    templates name.
    """

    configs: Mapping[str, str] = field(default_factory=dict)
    templates: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, Passed] = field(default_factory=dict)


NO_FILES = GivenFiles()


def configs_of(application: Application, service: str) -> dict[str, str]:
    """Return the configs that the compose file gives a service: path in the container -> text.

    One whose text is not here (an external one, or one that cannot be read) is left out.
    """
    declared = application.compose.get("configs") or {}
    texts = {}
    for entry in application.compose["services"][service].get("configs") or []:
        source, target = _config(entry)
        config = declared.get(source)
        if not isinstance(config, Mapping):
            continue
        if isinstance(config.get("content"), str):
            texts[target] = config["content"].replace("$$", "$")
        elif isinstance(config.get("file"), str):
            path = Path(application.base, config["file"].replace("$$", "$")).resolve()
            if not any(path.is_relative_to(root.resolve()) for root in application.roots):
                continue  # a study refuses it
            try:
                texts[target] = read_text(path)
            except FileError:
                continue
    return texts


def _config(entry: Any) -> tuple[str, str]:
    """Return name and path in the container of an entry of a service's ``configs``."""
    if isinstance(entry, Mapping):
        source = str(entry.get("source") or "")
        return source, str(entry.get("target") or f"/{source}")
    return str(entry), f"/{entry}"


def file_text(
    service: str, volumes: list[Any], path: str, image: ImageFacts | None, files: GivenFiles = NO_FILES
) -> str | None:
    """Return the text of a file that a service sees; None where it is not known.  ``volumes``: absolute."""
    for texts in (files.templates, files.configs):
        if path in texts:
            return texts[path]
    try:
        return mounted(service, volumes, path).text
    except FileError:
        return None
    except InputError:
        return image.files.get(path) if image is not None else None


def render_files(
    name: str,
    entry: dict[str, Any],
    rendered: dict[str, str],
    settings: list[Setting],
    image: ImageFacts | None,
    files: GivenFiles,
) -> None:
    """Edit every file that has a parameter, and every template, and mount them in ``entry``; add them to ``rendered``.

    At the default they are rendered too, so that deployments can be compared.  Raises InputError where a value has no
    place in its file.
    """
    volumes = list(entry.get("volumes") or [])
    origins = {path: _template(name, volumes, path, text) for path, text in files.templates.items()}
    texts = dict(files.templates)
    for setting in settings:
        parameter = setting.parameter

        def complain(problem: str, parameter: ParameterDefinition = parameter) -> InputError:
            return InputError(
                f"{name}: {parameter.name} cannot be set: {problem}; give it such a place, "
                f"or hold the parameter with `fixed: {{{parameter.name}: default}}`"
            )

        for edit in parameter.apply.edits:
            if edit.path not in texts:
                origins[edit.path] = _origin(name, volumes, image, edit, files)
                texts[edit.path] = origins[edit.path].text
            if edit.key and not (setting.own or setting.present) and _has(texts[edit.path], edit):
                raise complain(f"what {edit.path} has at {edit.key} is not understood, and is not overwritten")
            after = edited(texts[edit.path], edit, setting.value, setting.text, complain)
            if setting.written:
                texts[edit.path] = after
    for path, text in texts.items():
        volumes, place = remounted(volumes, origins[path], name, path)
        rendered[place] = text
    if not texts:
        return
    entry["volumes"] = volumes
    if entry.get("configs"):  # a file has one source
        kept = [config for config in entry["configs"] if _config(config)[1] not in texts]
        entry["configs"] = kept
        if not kept:
            del entry["configs"]


def _has(text: str, edit: Edit) -> bool:
    """Return whether a file has a value at the key of an edit."""
    try:
        return bool(values_at(text, edit.format, edit.key))
    except NoPlace:
        return False


def _template(name: str, volumes: list[Any], path: str, text: str) -> Mounted:
    """Return where a template is mounted: in the place of the file that the user mounts there, else newly."""
    try:
        file = mounted(name, volumes, path)
    except InputError:
        return Mounted(text, len(volumes), inside=True, read_only=True)
    return Mounted(text, file.index, file.inside, read_only=True)


def _origin(name: str, volumes: list[Any], image: ImageFacts | None, edit: Edit, files: GivenFiles) -> Mounted:
    """Return the file that an edit changes.  Raises InputError where there is none."""
    if edit.path in files.configs:
        return Mounted(files.configs[edit.path], len(volumes), inside=True, read_only=True)
    try:
        return mounted(name, volumes, edit.path)
    except FileError:
        raise
    except InputError:
        if image is not None and edit.path in image.files:
            return Mounted(image.files[edit.path], len(volumes), inside=True, read_only=True)
        if edit.create:
            return Mounted("", len(volumes), inside=True, read_only=True)
        raise
