"""The launch form: one field for each option that has a label, in the order of declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from framework.bench import AUTO
from framework.model import TuneRequest
from framework.model.options import Declared, options_of

Choice = tuple[str, str]
"""(value, text that is shown for it)."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A field as the template renders it.  ``choices``: of a select.  ``step``: "any" where numbers have decimals.

    The kind ``numbers`` is a text of numbers with commas between them, ``number or word`` one of a number or a word.
    """

    name: str
    label: str
    kind: Literal["select", "number", "numbers", "number or word", "check", "groups"]
    value: Any
    choices: Sequence[Choice] = ()
    low: float | None = None
    high: float | None = None
    step: str = ""
    placeholder: str = ""


def form_fields(choices: Mapping[str, Sequence[Choice]]) -> Sequence[FormField]:
    """Return the fields.  ``choices``: option -> its values, for options whose values depend on the service."""
    return [
        _field(declared, choices.get(declared.name, ()))
        for declared in options_of(TuneRequest).values()
        if declared.option.label
    ]


def choices_of_testbeds(kinds: Mapping[str, bool]) -> Sequence[Choice]:
    """Return the choices of testbeds.  ``kinds``: name of a testbed -> whether it is a model."""
    named = [(name, f"{name}: modelled, not measured" if modelled else name) for name, modelled in kinds.items()]
    return [(AUTO, "auto: Docker where an engine answers"), *named]


def _field(declared: Declared, choices: Sequence[Choice]) -> FormField:
    option, default = declared.option, declared.default
    label = f"{option.label} [{option.unit}]" if option.unit not in ("", option.label) else option.label
    if declared.type is bool:
        return FormField(declared.name, label, "check", default)
    if isinstance(default, tuple) and get_args(declared.type)[0] is float:
        return FormField(declared.name, label, "numbers", "")
    if isinstance(default, tuple):
        return FormField(declared.name, label, "groups", default)
    if isinstance(default, int) and declared.type is not int:
        [word] = (word for kind in get_args(declared.type) for word in get_args(kind))
        return FormField(declared.name, label, "number or word", f"{default}", placeholder=word)
    if choices or option.choices:
        offered = choices or [(choice, choice) for choice in option.choices]
        return FormField(declared.name, label, "select", default, offered)
    return FormField(
        declared.name,
        label,
        "number",
        "" if default is None else f"{default:g}",
        low=option.low,
        high=option.high_over_http if option.high is None else option.high,
        step="" if declared.type is int else "any",
        placeholder=option.absent,
    )
