"""The values that parameters have in the user's deployment today: in variables, flags, files and compose keys.

They are the default that gains are counted from.  What no file of the user's shows (a value inside the image) is not
found here; ``baseline`` in application.yaml says it.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from framework.compose.amounts import plain_text, read, unit_after_value
from framework.compose.command import Command
from framework.compose.files import fitting, plain_line, with_absolute_paths
from framework.compose.fitted import FilesOf, fitted
from framework.compose.placeholders import default_texts
from framework.compose.resources import resource_given
from framework.compose.service_files import GivenFiles, configs_of, file_text
from framework.config.key_paths import NoPlace
from framework.config.keyed_files import values_at, with_value
from framework.config.space import parameters_of
from framework.errors import InputError
from framework.model import Application, Edit, ParameterDefinition, Present, Service, ServiceType
from optimizer.space import Value


@dataclass(frozen=True, slots=True)
class _Text:
    """The text that stands for a value, with the template that it fits and where it stands."""

    text: str
    template: str
    where: str


def present_values(application: Application, types: Mapping[str, ServiceType]) -> dict[str, Present]:
    """Return ``service.parameter`` -> the value that the user set, of each parameter that the user set.

    A value that is not understood is left out; rendering then refuses to overwrite it.  Raises UnknownName.
    """
    values: dict[str, Present] = {}
    templates = default_texts(application, types)
    for service in application.services:
        if not service.tuned:
            continue
        files = GivenFiles(configs_of(application, service.name), templates.get(service.name, {}))
        for parameter in parameters_of(*fitted(application, types, service)):
            if parameter.name in service.fixed:
                continue
            name = f"{service.name}.{parameter.name}"
            if parameter.name in service.baseline:
                values[name] = Present(_declared(name, parameter, service.baseline[parameter.name]), "application.yaml")
                continue
            text = _text_of(application, service, parameter, files)
            value = read(parameter, text.text, text.template) if text is not None else None
            if text is not None and value is not None:
                values[name] = Present(value, text.where)
    return values


def without_place(application: Application, types: Mapping[str, ServiceType]) -> dict[str, str]:
    """Return ``service.parameter`` -> why it cannot be set: the file that it stands in has no place for it.

    A file that is neither mounted nor in an image that is here says nothing: rendering refuses it, or the image comes.
    """
    reasons: dict[str, str] = {}
    templates = default_texts(application, types)
    for service in application.services:
        files = GivenFiles(configs_of(application, service.name), templates.get(service.name, {}))
        seen, own = FilesOf(application, service), {parameter.name for parameter in service.parameters}
        for parameter in parameters_of(*fitted(application, types, service)) if service.tuned else ():
            name = f"{service.name}.{parameter.name}"
            if parameter.apply.kind != "file" or parameter.name in service.fixed:
                continue
            for edit in parameter.apply.edits:
                text = _file_text(application, service.name, edit.path, files)
                if edit.create and parameter.name not in own and not seen.in_directory(edit.path):
                    reasons[name] = f"its image has no directory {posixpath.dirname(edit.path)} that its server reads"
                elif text is not None and (reason := _misfit(text, edit)):
                    reasons[name] = reason
    return reasons


def _misfit(text: str, edit: Edit) -> str:
    """Return why a file has no place for a value; empty where it has one."""
    if edit.key:
        try:
            with_value(text, edit.format, edit.key, "1", string=False)
        except NoPlace as reason:
            return f"{edit.path} has no place for it: {reason}"
        return ""
    lines = fitting(text, edit).splitlines()
    if not edit.after or any(re.search(edit.pattern, line) or re.search(edit.after, line) for line in lines):
        return ""
    return f"{edit.path} has no line {plain_line(edit.after)!r}, after which {edit.line.strip()!r} would stand"


def _file_text(application: Application, service: str, path: str, files: GivenFiles) -> str | None:
    """Return the text of a file that a service sees; None where it is not known."""
    entry = with_absolute_paths(application.compose["services"][service], application.base)
    return file_text(service, list(entry.get("volumes") or []), path, application.images.get(service), files)


def _declared(name: str, parameter: ParameterDefinition, value: Value) -> Value:
    """Return a value that application.yaml declares, in the parameter's kind.  Raises InputError."""
    read_value = read(parameter, plain_text(value), "{value}")
    if read_value is None:
        raise InputError(f"{name}: baseline: found {value!r}; allowed: a value of kind {parameter.kind}")
    return read_value


def _text_of(
    application: Application, service: Service, parameter: ParameterDefinition, files: GivenFiles
) -> _Text | None:
    entry = application.compose["services"][service.name]
    apply = parameter.apply
    if apply.kind == "environment":
        return _in_environment(application.environment_of(service.name), parameter)
    if apply.kind == "flag":
        match = Command.of(entry, apply.name, application.images.get(service.name)).find(apply.template)
        return _Text(match.text, apply.template, f"command: {match.shown}") if match is not None else None
    if apply.kind == "resource":
        given = resource_given(entry, apply.name)
        if given is None:
            return None
        text, place = given
        return _Text(text, apply.template, f"compose file: {place}: {text}")
    if apply.kind == "file":
        return _in_file(application, service, parameter, files)
    return None


def _in_environment(environment: Mapping[str, str], parameter: ParameterDefinition) -> _Text | None:
    apply = parameter.apply
    for variable in apply.name.split():
        text = environment.get(variable)
        if text is None or "$" in text.replace("$$", ""):
            continue
        text = text.replace("$$", "$")
        if not apply.separator:
            match = value_pattern(apply.template).fullmatch(text.strip())
            return _Text(match["value"], apply.template, f"environment: {variable}={text}") if match else None
        for item in items_of(text, apply.separator):
            if match := value_pattern(apply.template).fullmatch(item):
                return _Text(match["value"], apply.template, f"environment: {item} in {variable}")
    return None


def _in_file(
    application: Application, service: Service, parameter: ParameterDefinition, files: GivenFiles
) -> _Text | None:
    edits = [edit for edit in parameter.apply.edits if "{value}" in edit.line]
    given: dict[str, _Text] = {}
    for edit in edits:
        text = _file_text(application, service.name, edit.path, files)
        if edit.key:
            at_key = _at_key(text or "", edit)
            given |= {at_key.text: at_key} if at_key is not None else {}
            continue
        pattern, line = re.compile(edit.pattern), value_pattern(edit.line.strip())
        lines = [old for old in fitting(text or "", edit).splitlines() if pattern.search(old)]
        if text is not None and not lines and edit.absent is not None:
            given.setdefault(
                plain_text(edit.absent), _Text(plain_text(edit.absent), "{value}", f"{edit.path}, by its absence")
            )
        for old in lines:
            if match := line.search(old):
                given[match["value"]] = _Text(match["value"], edit.line, edit.path)
    return next(iter(given.values())) if len(given) == 1 else None


def _at_key(text: str, edit: Edit) -> _Text | None:
    """Return the value at a key path, where all places that it selects have the same one."""
    try:
        values = set(values_at(text, edit.format, edit.key))
    except NoPlace:
        return None
    match = value_pattern(edit.line).fullmatch(values.pop()) if len(values) == 1 else None
    return _Text(match["value"], edit.line, f"{edit.path}: {edit.key}") if match is not None else None


def items_of(text: str, separator: str) -> list[str]:
    """Split a variable that is a list of items; a separator of spaces splits as a shell does."""
    if separator.isspace():
        try:
            return shlex.split(text)
        except ValueError:
            return text.split()
    return [item.strip() for item in text.split(separator)]


def value_pattern(template: str) -> re.Pattern[str]:
    """Return the pattern of text that a template makes, with the group ``value``: the value with its unit.

    Blanks in the template fit any number of blanks.
    """
    unit = unit_after_value(template)
    before, _, behind = template.partition("{value}")
    after = behind.removeprefix(unit)
    most = "+?" if after else "+"  # all of it, where nothing follows
    return re.compile(rf"{_flexible(before)}(?P<value>[^\s;\"']{most}){_flexible(after)}")


def _flexible(text: str) -> str:
    return "".join(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    for piece in re.split(r"(\s+)", text):
        yield r"\s+" if piece.isspace() else re.escape(piece)
