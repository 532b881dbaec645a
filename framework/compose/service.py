"""One service of the compose file, with the values of its parameters written into it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from framework.compose.amounts import plain_text, written
from framework.compose.baseline import items_of, value_pattern
from framework.compose.command import Command
from framework.compose.files import Mounted, edited, mounted, remounted
from framework.config.compose_files import environment_of
from framework.errors import FileError, InputError
from framework.model import Apply, Edit, Expectation, ImageFacts, ParameterDefinition, Passed
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


@dataclass(slots=True)
class Rendered:
    """One rendered service: its compose entry, mounted files, expected values and commands to run once it is up."""

    entry: dict[str, Any]
    files: dict[str, str] = field(default_factory=dict)
    expectations: list[Expectation] = field(default_factory=list)
    live: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)


def apply_settings(
    name: str,
    entry: Mapping[str, Any],
    settings: list[Setting],
    environment: Mapping[str, str] = MappingProxyType({}),
    image: ImageFacts | None = None,
) -> Rendered:
    """Write ``settings`` into the compose entry of service ``name``.

    ``environment``: the variables that the service has, also from environment files and its image.  ``image``: what
    its image does by itself, where that is known.  Raises InputError where a setting does not fit.
    """
    rendered = Rendered(dict(entry))
    for setting in settings:
        parameter = setting.parameter
        seen = _passed(setting) if setting.written else None
        rendered.expectations.append(Expectation(name, parameter.name, setting.value, parameter.read_back, seen))
        if not (setting.own or setting.present):
            _refuse_conflict(name, entry, setting, environment, image)
        match parameter.apply.kind:
            case "environment":
                _environment(rendered.entry, setting, environment)
            case "flag":
                _flag(name, rendered.entry, setting, image)
            case "resource":
                _resource(rendered.entry, setting)
            case "live" if setting.written:
                command = tuple(_fill(parameter.apply.template, setting.text))
                rendered.live.append((name, command))
            case _:
                pass  # files are edited below, once for all settings
    _files(name, rendered, image, [setting for setting in settings if setting.parameter.apply.kind == "file"])
    return rendered


def _passed(setting: Setting) -> Passed:
    """Return what a container shows of a value that was written."""
    apply, text = setting.parameter.apply, setting.text
    if apply.kind == "file":
        edit = next(edit for edit in apply.edits if "{value}" in edit.line)
        return Passed("file", edit.path, edit.line.replace("{value}", text).strip())
    filled = apply.template.replace("{value}", text)
    if apply.kind == "flag":
        return Passed("flag", "", " ".join(_fill(apply.template, text)))
    return Passed(apply.kind, apply.name.split()[0] if apply.kind == "environment" else apply.name, filled)


def _fill(template: str, text: str) -> list[str]:
    """Split a template as a shell would, then put the value in, so that it stays one word."""
    return [word.replace("{value}", text) for word in shlex.split(template)]


def _escaped(text: str) -> str:
    """Double every dollar: compose reads $NAME in every string of a document."""
    return text.replace("$", "$$")


def _environment(entry: dict[str, Any], setting: Setting, present: Mapping[str, str]) -> None:
    """Set the variables of a parameter; ``present``: those that the service has, also from environment files."""
    if not setting.written:
        return
    apply = setting.parameter.apply
    item = apply.template.replace("{value}", setting.text)
    for variable in apply.name.split():
        text = _escaped(item)
        if apply.separator:
            before = environment_of(entry).get(variable, present.get(variable, ""))
            text = _with_item_of_list(before, text, apply)
        entry["environment"] = with_item(entry.get("environment"), variable, text)


def _with_item_of_list(before: str, item: str, apply: Apply) -> str:
    """Put an item into a variable that is a list: in the place of the one that it has, else behind all others."""
    pattern = value_pattern(apply.template)
    items = [item if pattern.fullmatch(old) else old for old in items_of(before, apply.separator)] if before else []
    if item not in items:
        return f"{before}{apply.separator}{item}" if before.strip() else item
    quoted = apply.separator.isspace() and any(" " in old for old in items)
    return shlex.join(items) if quoted else apply.separator.join(items)


def with_item(items: Any, name: str, text: str) -> Any:
    """Add or replace one item of a compose mapping of texts, in either of its two forms."""
    if isinstance(items, list):
        kept = [item for item in items if str(item).partition("=")[0] != name]
        return [*kept, f"{name}={text}"]
    return {**(items or {}), name: text}


def _flag(name: str, entry: dict[str, Any], setting: Setting, image: ImageFacts | None) -> None:
    if not setting.written:
        return
    command = Command.of(entry, setting.parameter.apply.name, image)
    if command.reason:
        raise InputError(
            f"{name}: {setting.parameter.name} is a flag, which cannot be appended to the command: {command.reason}; "
            f"write the server's own command, or `fixed: {{{setting.parameter.name}: default}}`"
        )
    entry |= command.with_flag(setting.parameter.apply.template, _escaped(setting.text)).written()


def _resource(entry: dict[str, Any], setting: Setting) -> None:
    if not setting.written:
        return
    *path, last = setting.parameter.apply.name.split(".")
    at = entry
    for key in path:
        inner = at.get(key)
        at[key] = dict(inner) if isinstance(inner, dict) else {}
        at = at[key]
    at[last] = _escaped(setting.parameter.apply.template.replace("{value}", setting.text))


def _files(name: str, rendered: Rendered, image: ImageFacts | None, settings: list[Setting]) -> None:
    """Edit every file that has a parameter; at the default it is rendered too, so that deployments can be compared."""
    volumes = list(rendered.entry.get("volumes") or [])
    texts: dict[str, str] = {}
    origins: dict[str, Mounted] = {}
    for setting in settings:
        parameter = setting.parameter

        def complain(problem: str, parameter: ParameterDefinition = parameter) -> InputError:
            return InputError(
                f"{name}: {parameter.name} cannot be set: {problem}; add such a line (with nothing after it), "
                f"or hold the parameter with `fixed: {{{parameter.name}: default}}`"
            )

        for edit in parameter.apply.edits:
            if edit.path not in texts:
                origins[edit.path] = _file(name, volumes, image, edit)
                texts[edit.path] = origins[edit.path].text
            after = edited(texts[edit.path], edit, setting.value, setting.text, complain)
            if setting.written:
                texts[edit.path] = after
    for path, text in texts.items():
        volumes, place = remounted(volumes, origins[path], name, path)
        rendered.files[place] = text
    if texts:
        rendered.entry["volumes"] = volumes


def _file(name: str, volumes: list[Any], image: ImageFacts | None, edit: Edit) -> Mounted:
    """Return the file that an edit changes: mounted, inside the image, or new.  Raises InputError where it is none."""
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


def _refuse_conflict(
    name: str, entry: Mapping[str, Any], setting: Setting, environment: Mapping[str, str], image: ImageFacts | None
) -> None:
    """Raise InputError where the user's files set a parameter to something that is not understood."""
    parameter = setting.parameter
    apply, conflict = parameter.apply, ""
    if apply.kind == "environment":
        names = {} if apply.separator else {**environment, **environment_of(entry)}
        conflict = next((variable for variable in apply.name.split() if variable in names), "")
    elif apply.kind == "flag":
        conflict = _flag_given(Command.of(entry, apply.name, image).words, apply.template)
    elif apply.kind == "resource":
        conflict = apply.name if _present(entry, apply.name.split(".")) else ""
    if conflict:
        raise InputError(
            f"{name}: the compose file sets {conflict} itself, which is the parameter {parameter.name} "
            f"(default {plain_text(parameter.default)}); remove it there, or keep it and write "
            f"`fixed: {{{parameter.name}: default}}` in application.yaml, which leaves the parameter alone"
        )


def _flag_given(command: Sequence[str], template: str) -> str:
    """Return the flag of ``template`` in ``command``, empty if absent: the word before {value}, or its word's start."""
    words = shlex.split(template)
    at = next(index for index, word in enumerate(words) if "{value}" in word)
    prefix = words[at].partition("{value}")[0]
    if prefix:
        return next((word for word in command if word.startswith(prefix)), "")
    return words[at - 1] if at > 0 and words[at - 1] in command else ""


def _present(entry: Mapping[str, Any], path: list[str]) -> bool:
    at: Any = entry
    for key in path:
        if not isinstance(at, Mapping) or key not in at:
            return False
        at = at[key]
    return True
