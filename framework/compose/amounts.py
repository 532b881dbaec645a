"""Values as servers write them: plain numbers, with units, hexadecimal, and words."""

from __future__ import annotations

import re

from framework.model import Apply, ParameterDefinition
from optimizer.space import Value

_BINARY = {"": 1.0, "k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40}
SIZES = {f"{prefix}{ending}": factor for prefix, factor in _BINARY.items() for ending in ("", "b", "ib") if prefix} | {
    "b": 1.0
}
"""Unit of a size in lower case -> bytes.  A kB is 1,024 bytes, as nearly every server reads it."""
TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0, "hour": 3600.0, "d": 86400.0}
"""Unit of a time -> seconds."""
_NUMBER = re.compile(r"(?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>[A-Za-z%]*)")
_HEXADECIMAL = re.compile(r"(?:0[xX])?[0-9a-fA-F]+")
_TRUE, _FALSE = frozenset({"true", "on", "yes", "1"}), frozenset({"false", "off", "no", "0"})


def plain_text(value: Value) -> str:
    """Write a value as text: true, 3, 1.25 (never 1.2500000000000002), noeviction."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value)


def written(apply: Apply, value: Value) -> str:
    """Write a value as the server reads it where it stands for ``{value}``."""
    text = plain_text(value)
    if text in apply.words:
        return apply.words[text]
    if apply.number == "hexadecimal" and isinstance(value, int) and not isinstance(value, bool):
        return f"{value:x}"
    return text


def read(parameter: ParameterDefinition, text: str, template: str) -> Value | None:
    """Read a parameter's value from text that stands in the place of ``{value}`` and its unit in ``template``.

    None: the text is not understood.
    """
    text = text.strip().strip("\"'")
    own = unit_after_value(template)
    for value, word in parameter.apply.words.items():
        if text in (word, word + own):
            return _of_kind(parameter, value, own)
    return _of_kind(parameter, text, own)


def _of_kind(parameter: ParameterDefinition, text: str, own: str) -> Value | None:
    if parameter.kind == "boolean":
        word = text.lower()
        return True if word in _TRUE else False if word in _FALSE else None
    if parameter.kind == "categorical":
        return next((choice for choice in parameter.choices if plain_text(choice) == text), text or None)
    number = _number(parameter, text, own)
    if number is None or (parameter.kind == "integer" and abs(number - round(number)) > 1e-6 * max(1, abs(number))):
        return None
    return round(number) if parameter.kind == "integer" else number


def _number(parameter: ParameterDefinition, text: str, own: str) -> float | None:
    apply = parameter.apply
    if apply.number == "hexadecimal":
        return float(int(text, 16)) if _HEXADECIMAL.fullmatch(text) else None
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    number, unit = float(match["number"]), match["unit"]
    if unit in apply.units:
        return number * apply.units[unit]
    if unit.lower() == own.lower():
        return number
    factor = _factor(unit, parameter.unit)
    return number * factor if factor is not None and unit else None


def _factor(unit: str, wanted: str) -> float | None:
    """Return what a number of ``unit`` is multiplied by to be in the unit ``wanted``; None where they do not fit."""
    for table in (SIZES, TIMES):
        if unit.lower() in table and wanted.lower() in table:
            return table[unit.lower()] / table[wanted.lower()]
    return None


def unit_after_value(template: str) -> str:
    """Return the unit that a template writes behind the value: ``MB`` of ``--size={value}MB``, not ``GC`` of G1GC."""
    match = re.match(r"[A-Za-z%]*", template.partition("{value}")[2])
    unit = match[0] if match else ""
    return unit if unit == "%" or unit.lower() in SIZES or unit.lower() in TIMES else ""
