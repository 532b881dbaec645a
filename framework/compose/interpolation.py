"""Interpolation of variables in a compose document, as compose does it, with the variables that the operator passes on.

Tailor does this itself, before it checks a document: compose then gets exactly the text that was checked, and never
sees Tailor's own environment.  The grammar is the Compose Specification's, section "Interpolation".
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, MutableSet
from dataclasses import dataclass, field
from typing import Any

OWN = "TAILOR_"  # Tailor's own settings; its database's password is one of them
_NAME = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_OPERATOR = re.compile(r":?[-?+]")


class InterpolationError(Exception):
    """A variable that cannot be filled in: ``reason`` completes "services.web.image: ...".  ``variable``: its name."""

    def __init__(self, reason: str, variable: str = "") -> None:
        self.reason, self.variable = reason, variable
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Variables:
    """Variables that a document may see: those ``passed`` by the operator.  ``withheld``: names set and not passed."""

    passed: Mapping[str, str] = field(default_factory=dict)
    withheld: Collection[str] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str], names: Collection[str]) -> Variables:
        """Take the variables of an environment that have these names, never Tailor's own."""
        passed = {name: environment[name] for name in names if name in environment and not name.startswith(OWN)}
        return cls(passed, frozenset(environment) - passed.keys())

    @classmethod
    def here(cls, names: Collection[str] = ()) -> Variables:
        """Take the variables of this process that have these names, never Tailor's own."""
        return cls.of(os.environ, names)

    def get(self, name: str) -> str | None:
        """Return a variable's value, None where it is not set.  Raises InterpolationError where it is withheld."""
        if name.startswith(OWN) or (name in self.withheld and name not in self.passed):
            reason = "is Tailor's own" if name.startswith(OWN) else "is set here and not passed on"
            raise InterpolationError(f"the variable {name} {reason}", name)
        return self.passed.get(name)


NO_VARIABLES = Variables()


def interpolated(text: str, variables: Variables, unset: MutableSet[str] | None = None) -> str:
    """Fill in the variables of ``text``, and make ``$$`` one dollar.

    A variable that is not passed gets its default, if it has one.  ``unset`` collects the names of variables without
    a value, which become empty.  Raises InterpolationError.
    """
    result, end = _until(text, 0, "", variables, set() if unset is None else unset)
    assert end == len(text)
    return result


def escaped(value: Any) -> Any:
    """Double every dollar of a document, so that compose reads its text unchanged."""
    if isinstance(value, Mapping):
        return {key: escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [escaped(item) for item in value]
    return value.replace("$", "$$") if isinstance(value, str) else value


def _until(text: str, at: int, end: str, variables: Variables, unset: MutableSet[str]) -> tuple[str, int]:
    """Fill in the text from ``at`` to the character ``end`` (empty: all the rest); return it and its end."""
    parts: list[str] = []
    while at < len(text) and (not end or text[at] != end):
        if text[at] != "$":
            parts.append(text[at])
            at += 1
        elif text.startswith("$$", at):
            parts.append("$")
            at += 2
        elif text.startswith("${", at):
            part, at = _braced(text, at + 2, variables, unset)
            parts.append(part)
        else:
            name = _NAME.match(text, at + 1)
            if name is None:
                raise InterpolationError("a dollar that begins no variable ($$ stands for a dollar)")
            parts.append(_plain(name[0], variables, unset))
            at = name.end()
    return "".join(parts), at


def _braced(text: str, at: int, variables: Variables, unset: MutableSet[str]) -> tuple[str, int]:
    """Return the value of the ``${...}`` whose name begins at ``at``, and the position after its closing brace."""
    name = _NAME.match(text, at)
    if name is None:
        raise InterpolationError("${ that begins no variable ($$ stands for a dollar)")
    operator = _OPERATOR.match(text, name.end())
    at = operator.end() if operator else name.end()
    # The text after an operator is filled in only where it is used: else its variables may be missing.
    close = _closing(text, at)
    argument = text[at:close]
    if operator is None:
        if argument:
            raise InterpolationError(f"${{{name[0]}{argument[:20]}}} is no variable")
        return _plain(name[0], variables, unset), close + 1
    kind = operator[0]
    value = _passed(name[0], variables)
    given = bool(value) if kind[0] == ":" else value is not None
    if kind[-1] == "+":
        return (_filled(argument, variables, unset) if given else ""), close + 1
    if given and value is not None:
        return value, close + 1
    if kind[-1] == "?":
        variables.get(name[0])  # raises where it is only withheld
        message = _filled(argument, variables, unset)
        raise InterpolationError(f"the variable {name[0]} is needed{f': {message}' if message else ''}", name[0])
    return _filled(argument, variables, unset), close + 1


def _closing(text: str, at: int) -> int:
    """Return the position of the brace that closes the one before ``at``."""
    depth = 1
    while at < len(text):
        if text.startswith("$$", at) or text.startswith("${", at):
            depth += text[at + 1] == "{"
            at += 2
            continue
        depth -= text[at] == "}"
        if not depth:
            return at
        at += 1
    raise InterpolationError("${ without }")


def _filled(text: str, variables: Variables, unset: MutableSet[str]) -> str:
    return _until(text, 0, "", variables, unset)[0]


def _passed(name: str, variables: Variables) -> str | None:
    """Return the value of a variable that has an alternative, so that a withheld one counts as not set."""
    return None if name.startswith(OWN) else variables.passed.get(name)


def _plain(name: str, variables: Variables, unset: MutableSet[str]) -> str:
    value = variables.get(name)
    if value is None:
        unset.add(name)
    return value or ""
