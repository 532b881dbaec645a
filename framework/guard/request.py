"""Text of a guard's policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from framework.errors import FieldError
from framework.guard.policy import POLICIES, Policy


def policy_of(text: str, options: Mapping[str, str] | None = None) -> tuple[str, Policy]:
    """Return the name and the policy of a text such as ``tailor``, ``thesis`` or ``static:2``, with options of its
    fields.

    Raises UnknownName, FieldError, MissingPrerequisite.
    """
    name, colon, cores = text.partition(":")
    kind = POLICIES.get(name)
    given = dict(options or {})
    if colon:
        given["cores"] = cores
    hints = {field.name: get_type_hints(kind)[field.name] for field in fields(kind)}
    readable = {option: hint for option, hint in hints.items() if hint in (int, float) or get_origin(hint) is Literal}
    values = {}
    for option, value in given.items():
        if option not in readable:
            raise FieldError("policy", f"{name}: {option}", f"its options {', '.join(sorted(readable))}")
        values[option] = _read(f"{name}: {option} = {value}", readable[option], value)
    policy: Policy = kind(**values)
    return name, policy


def policy_options(policy: Policy) -> dict[str, Any]:
    """Return the fields of a policy as plain data."""
    described: Any = policy
    values = {field.name: getattr(policy, field.name) for field in fields(described)}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}


def _read(place: str, hint: Any, text: str) -> Any:
    if get_origin(hint) is Literal:
        if text not in get_args(hint):
            raise FieldError("policy", place, f"one of {', '.join(get_args(hint))}")
        return text
    try:
        value = hint(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise FieldError("policy", place, f"{'a whole number' if hint is int else 'a number'}, 0 or more")
    return value
