"""Arithmetic over the host, for bounds and defaults such as ``host.memory_mib * 0.25``.

Only numbers, + - * /, min, max, ``host.cores`` and ``host.memory_mib``: files are data, so nothing else is evaluated.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

from framework.errors import InputError

ALLOWED = "a number, or an expression of numbers, + - * /, min(), max(), host.cores and host.memory_mib"

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_LONGEST = 200  # characters; a bound is one line


@dataclass(frozen=True, slots=True)
class Host:
    """The size of a host, which bounds and defaults may refer to."""

    cores: int
    memory_mib: int


class NotAnExpression(InputError):
    """Text that is not arithmetic over the host.  Correct it."""


def evaluate(text: float | str, host: Host) -> float:
    """Return the value of ``text`` on ``host``, a finite number.  Raises NotAnExpression."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return text
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise NotAnExpression(f"{str(text)[:_LONGEST]!r}; allowed: {ALLOWED}")
    try:
        number = _value(ast.parse(text.strip(), mode="eval").body, host)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotAnExpression(f"{text!r}; allowed: {ALLOWED}") from None
    except ArithmeticError as error:
        raise NotAnExpression(f"{text!r} has no value on this host ({error}); allowed: {ALLOWED}") from None
    if not math.isfinite(number):
        raise NotAnExpression(f"{text!r} is not finite; allowed: {ALLOWED}")
    return number


def _value(node: ast.expr, host: Host) -> float:
    """Evaluate one node.  Raises ValueError on anything outside the grammar."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, host)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_value(left, host), _value(right, host))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[_, _, *_] as arguments, keywords=[]):
            return (min if name == "min" else max)(_value(argument, host) for argument in arguments)
        case ast.Attribute(value=ast.Name(id="host"), attr="cores"):
            return host.cores
        case ast.Attribute(value=ast.Name(id="host"), attr="memory_mib"):
            return host.memory_mib
    raise ValueError
