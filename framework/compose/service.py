"""One service of the compose file, with the values of its parameters written into it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from framework.compose.amounts import plain_text
from framework.compose.baseline import items_of, value_pattern
from framework.compose.command import Command
from framework.compose.resources import resource_given, resource_probe, with_resource
from framework.compose.service_files import NO_FILES, GivenFiles, Setting, render_files
from framework.config.compose_files import environment_of
from framework.config.resource_names import is_key
from framework.errors import InputError
from framework.model import Apply, Expectation, ImageFacts, Passed


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
    files: GivenFiles = NO_FILES,
) -> Rendered:
    """Write ``settings`` into the compose entry of service ``name``.

    ``environment``: the variables that the service has, also from environment files and its image.  ``image``: what
    its image does by itself, where that is known.  ``files``: its compose configs, and its templates.  Raises
    InputError where a setting does not fit.
    """
    rendered = Rendered(dict(entry))
    for setting in settings:
        parameter = setting.parameter
        rendered.expectations.append(_expectation(name, setting, files))
        if not (setting.own or setting.present):
            _refuse_conflict(name, entry, setting, environment, image)
        match parameter.apply.kind:
            case "environment":
                _environment(rendered.entry, setting, environment)
            case "flag":
                _flag(name, rendered.entry, setting, image)
            case "resource":
                if setting.written:
                    text = _escaped(parameter.apply.template.replace("{value}", setting.text))
                    rendered.entry = with_resource(rendered.entry, parameter.apply.name, text)
            case "live" if setting.written:
                command = tuple(_fill(parameter.apply.template, setting.text))
                rendered.live.append((name, command))
            case _:
                pass  # files are edited below, once for all settings
    in_files = [setting for setting in settings if setting.parameter.apply.kind == "file"]
    render_files(name, rendered.entry, rendered.files, in_files, image, files)
    return rendered


def _expectation(name: str, setting: Setting, files: GivenFiles) -> Expectation:
    """Return the value that has to be read back: by the type's probe, or by the engine where the engine gives it."""
    parameter = setting.parameter
    apply, probe = parameter.apply, parameter.read_back
    if apply.kind == "resource" and not is_key(apply.name) and probe is None and (setting.written or setting.present):
        probe = resource_probe(apply.name, parameter.unit)
    if apply.kind == "template":
        return Expectation(name, parameter.name, setting.value, probe, files.shown.get(f"{name}.{parameter.name}"))
    seen = _passed(setting) if setting.written else None
    return Expectation(name, parameter.name, setting.value, probe, seen)


def _passed(setting: Setting) -> Passed:
    """Return what a container shows of a value that was written."""
    apply, text = setting.parameter.apply, setting.text
    if apply.kind == "file":
        edit = next(edit for edit in apply.edits if "{value}" in edit.line)
        if edit.key:
            return Passed("file", edit.path, edit.line.replace("{value}", text), edit.key, edit.format)
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
    """Put an item into a variable that is a list: in the place of the one that it has, else behind all others.

    One with ``resets`` always goes behind them and all others, for of contradicting items the last one holds.
    """
    pattern, given = value_pattern(apply.template), items_of(before, apply.separator) if before.strip() else []
    if apply.resets:
        resets = items_of(apply.resets, apply.separator)
        items = [old for old in given if old not in resets and not pattern.fullmatch(old)] + [*resets, item]
    else:
        items = [item if pattern.fullmatch(old) else old for old in given]
        items += [] if item in items else [item]
    if items[: len(given)] == given:  # the user's own text stays as it is
        return apply.separator.join([*([before] if given else []), *items[len(given) :]])
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
        given = resource_given(entry, apply.name)
        conflict = given[1] if given is not None else ""
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
