"""One service of the compose file, with the values of its parameters written into it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.compose.files import Mounted, edited, mounted, remounted
from framework.errors import InputError
from framework.model import Apply, Expectation, ParameterDefinition
from optimizer.space import Value

_SHELLS = frozenset({"sh", "bash", "ash", "dash", "/bin/sh", "/bin/bash", "/bin/ash", "/bin/dash"})


@dataclass(frozen=True, slots=True)
class Setting:
    """A parameter with the value it gets.

    ``written``: False leaves the service as it is, because the server has this value by itself.
    ``own``: the value is the application's (``fixed``), so the compose file may already set another one.
    """

    parameter: ParameterDefinition
    value: Value
    written: bool
    own: bool = False

    @property
    def text(self) -> str:
        """The value as the server reads it."""
        words = self.parameter.apply.words
        text = plain_text(self.value)
        return words.get(text, text)


@dataclass(slots=True)
class Rendered:
    """One rendered service: its compose entry, mounted files, expected values and commands to run once it is up."""

    entry: dict[str, Any]
    files: dict[str, str] = field(default_factory=dict)
    expectations: list[Expectation] = field(default_factory=list)
    live: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)


def plain_text(value: Value) -> str:
    """Write a value as text: true, 3, 1.25 (never 1.2500000000000002), noeviction."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value)


def apply_settings(name: str, entry: Mapping[str, Any], settings: list[Setting]) -> Rendered:
    """Write ``settings`` into the compose entry of service ``name``.  Raises InputError where one does not fit."""
    rendered = Rendered(dict(entry))
    for setting in settings:
        parameter = setting.parameter
        rendered.expectations.append(Expectation(name, parameter.name, setting.value, parameter.read_back))
        if not setting.own:
            _refuse_conflict(name, entry, setting)
        match parameter.apply.kind:
            case "environment":
                _environment(rendered.entry, setting)
            case "flag":
                _flag(name, rendered.entry, setting)
            case "resource":
                _resource(rendered.entry, setting)
            case "live" if setting.written:
                command = tuple(_fill(parameter.apply.template, setting.text))
                rendered.live.append((name, command))
            case _:
                pass  # files are edited below, once for all settings
    _files(name, rendered, [setting for setting in settings if setting.parameter.apply.kind == "file"])
    return rendered


def _fill(template: str, text: str) -> list[str]:
    """Split a template as a shell would, then put the value in, so that it stays one word."""
    return [word.replace("{value}", text) for word in shlex.split(template)]


def _escaped(text: str) -> str:
    """Double every dollar: compose reads $NAME in every string of a document."""
    return text.replace("$", "$$")


def _environment(entry: dict[str, Any], setting: Setting) -> None:
    if not setting.written:
        return
    apply = setting.parameter.apply
    text = _escaped(apply.template.replace("{value}", setting.text))
    for variable in apply.name.split():
        entry["environment"] = with_item(entry.get("environment"), variable, text)


def with_item(items: Any, name: str, text: str) -> Any:
    """Add or replace one item of a compose mapping of texts, in either of its two forms."""
    if isinstance(items, list):
        kept = [item for item in items if str(item).partition("=")[0] != name]
        return [*kept, f"{name}={text}"]
    return {**(items or {}), name: text}


def _flag(name: str, entry: dict[str, Any], setting: Setting) -> None:
    if not setting.written:
        return
    command = _command(entry, setting.parameter.apply)
    if len(command) > 1 and command[0] in _SHELLS and command[1].startswith("-"):
        raise InputError(
            f"{name}: {setting.parameter.name} is a flag, and the command is a line for {command[0]}, which flags "
            f"cannot be appended to; write the server's own command, or `fixed: {{{setting.parameter.name}: default}}`"
        )
    entry["command"] = [*command, *(_escaped(word) for word in _fill(setting.parameter.apply.template, setting.text))]


def _command(entry: Mapping[str, Any], apply: Apply) -> list[str]:
    """Return the service's command: the compose file's, or the image's (none where the file sets an entry point)."""
    command = entry.get("command")
    if command is None:
        return [] if entry.get("entrypoint") is not None else shlex.split(apply.name)
    return shlex.split(command) if isinstance(command, str) else [str(word) for word in command]


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


def _files(name: str, rendered: Rendered, settings: list[Setting]) -> None:
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
                origins[edit.path] = mounted(name, volumes, edit.path)
                texts[edit.path] = origins[edit.path].text
            after = edited(texts[edit.path], edit, setting.value, setting.text, complain)
            if setting.written:
                texts[edit.path] = after
    for path, text in texts.items():
        volumes, place = remounted(volumes, origins[path], name, path)
        rendered.files[place] = text
    if texts:
        rendered.entry["volumes"] = volumes


def _refuse_conflict(name: str, entry: Mapping[str, Any], setting: Setting) -> None:
    """Raise InputError where the compose file sets a parameter itself: its default means that nobody sets it."""
    parameter = setting.parameter
    apply, conflict = parameter.apply, ""
    if apply.kind == "environment":
        given = entry.get("environment") or {}
        names = {str(item).partition("=")[0] for item in given}
        conflict = next((variable for variable in apply.name.split() if variable in names), "")
    elif apply.kind == "flag":
        conflict = _flag_given(_command(entry, apply), apply.template)
    elif apply.kind == "resource":
        conflict = apply.name if _present(entry, apply.name.split(".")) else ""
    if conflict:
        raise InputError(
            f"{name}: the compose file sets {conflict} itself, which is the parameter {parameter.name} "
            f"(default {plain_text(parameter.default)}); remove it there, or keep it and write "
            f"`fixed: {{{parameter.name}: default}}` in application.yaml, which leaves the parameter alone"
        )


def _flag_given(command: list[str], template: str) -> str:
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
