"""The little language of constraints and derived parameters: text that is checked, then evaluated, and nothing else.

Parameter names stand in braces, since they contain dots and dashes: ``{web.workers} * 2 <= {db.connections}``.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from optimizer.space.configuration import Value

ARITHMETIC = "{parameter} names, numbers, + - * / // %, min(), max(), abs(), floor(), ceil()"
GRAMMAR = (
    "{parameter} names, numbers, 'text', True, False, + - * / // %, == != < <= > >=, in (...), and, or, not, "
    "min(), max(), abs(), floor(), ceil()"
)
_LONGEST = 500  # characters
_NAME = re.compile(r"\{([^{}]+)\}")
_ALMOST = 1e-9  # relative: 0.1 * 30 is 3.0000000000000004, and is meant to be 3
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, values: value in values,
    ast.NotIn: lambda value, values: value not in values,
}


def floor(number: float) -> int:
    """Return the largest integer at or below ``number``; a number within a billionth of an integer is that integer.

    Raises ArithmeticError where ``number`` is not finite.
    """
    if not math.isfinite(number):
        raise ArithmeticError("not finite")
    nearest = round(number)
    return nearest if abs(number - nearest) <= _ALMOST * max(1.0, abs(number)) else math.floor(number)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "floor": lambda number: floor(_number(number)),
    "ceil": lambda number: -floor(-_number(number)),
}
_ONE_ARGUMENT = ("abs", "floor", "ceil")


@dataclass(frozen=True)
class Expression:
    """Parsed text: ``tree`` has the parameter ``names[i]`` as the name ``_i``."""

    names: tuple[str, ...]
    tree: ast.expr

    @classmethod
    def parse(cls, text: str, *, arithmetic: bool = False) -> Expression:
        """Check text of at most 500 characters.  ``arithmetic``: numbers only.  Raises ValueError."""
        names = tuple(dict.fromkeys(_NAME.findall(text)))
        plain = _NAME.sub(lambda match: f"_{names.index(match.group(1))}", text)
        if len(text) > _LONGEST:
            raise ValueError("too long")
        try:
            tree = ast.parse(plain.strip(), mode="eval").body
            _check(tree, len(names), arithmetic)
        except (SyntaxError, RecursionError, MemoryError):
            raise ValueError("not in the grammar") from None
        return cls(names, tree)

    def value(self, configuration: Mapping[str, Value], fixed: Mapping[str, Value]) -> Any:
        """Return the value of the text; ``fixed`` goes before ``configuration``.

        Raises ArithmeticError and TypeError where it has none: a division by zero, text against a number.
        """
        known = [fixed[name] if name in fixed else configuration[name] for name in self.names]
        return _value(self.tree, known)


def arithmetic_names(text: str) -> tuple[str, ...]:
    """Return the parameters that text of numbers names, in its order.  Raises ValueError on other text."""
    return Expression.parse(text, arithmetic=True).names


def linear(text: str) -> tuple[dict[str, float], float] | None:
    """Return ``text`` as sum(coefficient * parameter) = number; None where it is no linear equation.

    The coefficients of a parameter on both sides are added up, and those that become 0 are left out.
    """
    try:
        parsed = Expression.parse(text)
    except ValueError:
        return None
    match parsed.tree:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            sides = _linear(left), _linear(right)
        case _:
            return None
    if sides[0] is None or sides[1] is None:
        return None
    total = {
        place: sides[0].get(place, 0.0) - sides[1].get(place, 0.0) for place in dict.fromkeys((*sides[0], *sides[1]))
    }
    bound = -total.pop(None, 0.0)
    coefficients = {parsed.names[place]: number for place, number in total.items() if place is not None and number}
    return (coefficients, bound + 0.0) if coefficients else None


def _linear(node: ast.expr) -> dict[int | None, float] | None:
    """Return a node as coefficients by the place of the parameter, the constant under None; None where not linear."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return {None: float(number)}
        case ast.Name(id=name):
            return {int(name[1:]): 1.0}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _scaled(_linear(operand), -1.0)
        case ast.BinOp(left=left, op=sign, right=right):
            first, second = _linear(left), _linear(right)
            if first is None or second is None:
                return None
            return _combined(first, sign, second)
    return None


def _combined(
    first: dict[int | None, float], sign: ast.operator, second: dict[int | None, float]
) -> dict[int | None, float] | None:
    match sign:
        case ast.Add() | ast.Sub():
            factor = 1.0 if isinstance(sign, ast.Add) else -1.0
            places = dict.fromkeys((*first, *second))
            return {place: first.get(place, 0.0) + factor * second.get(place, 0.0) for place in places}
        case ast.Mult() if set(first) <= {None}:
            return _scaled(second, first.get(None, 0.0))
        case ast.Mult() if set(second) <= {None}:
            return _scaled(first, second.get(None, 0.0))
        case ast.Div() if set(second) <= {None} and second.get(None):
            return _scaled(first, 1.0 / second[None])
    return None


def _scaled(terms: dict[int | None, float] | None, factor: float) -> dict[int | None, float] | None:
    return None if terms is None else {place: factor * number for place, number in terms.items()}


def _check(node: ast.expr, names: int, arithmetic: bool) -> None:
    """Check a node and those below it.  Raises ValueError on anything outside the grammar."""
    match node:
        case ast.Constant(value=bool() | str()) if arithmetic:
            raise ValueError("a number is needed")
        case ast.Constant(value=int() | float() | str()):
            return
        case ast.Name(id=name) if name.startswith("_") and name[1:].isdecimal() and int(name[1:]) < names:
            return
        case ast.UnaryOp(op=ast.USub()):
            parts: list[ast.expr] = [node.operand]
        case ast.BinOp(op=sign) if type(sign) in _BINARY:
            parts = [node.left, node.right]
        case ast.Call(func=ast.Name(id=name), args=[_, *others], keywords=[]) if name in _FUNCTIONS:
            if others and name in _ONE_ARGUMENT:
                raise ValueError("one argument is needed")
            if arithmetic and not others and name not in _ONE_ARGUMENT:
                raise ValueError("two arguments are needed")
            parts = node.args
        case _ if not arithmetic:
            parts = _logical_parts(node)
        case _:
            raise ValueError("not in the grammar")
    for part in parts:
        _check(part, names, arithmetic)


def _logical_parts(node: ast.expr) -> list[ast.expr]:
    """Return the parts of a node of logic.  Raises ValueError on any other node."""
    match node:
        case ast.UnaryOp(op=ast.Not()):
            return [node.operand]
        case ast.BoolOp():
            return node.values
        case ast.Compare() if all(type(sign) in _COMPARISONS for sign in node.ops):
            return [node.left, *node.comparators]
        case ast.Tuple():
            return node.elts
    raise ValueError("not in the grammar")


def _value(node: ast.expr, known: list[Value]) -> Any:
    """Return the value of a node that passed ``_check``."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return known[int(name[1:])]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, known)
        case ast.UnaryOp(operand=operand):
            return not _value(operand, known)
        case ast.BinOp(left=left, op=sign, right=right):
            return _BINARY[type(sign)](_number(_value(left, known)), _number(_value(right, known)))
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, known) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, known) for part in parts)
        case ast.Compare(left=left, ops=signs, comparators=others):
            values = [_value(left, known), *(_value(other, known) for other in others)]
            steps = zip(signs, values, values[1:], strict=False)
            return all(_COMPARISONS[type(sign)](first, second) for sign, first, second in steps)
        case ast.Tuple(elts=parts):
            return tuple(_value(part, known) for part in parts)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name](*(_value(argument, known) for argument in arguments))
    raise AssertionError("unreachable: _check refuses other nodes")


def _number(value: Any) -> Any:
    """Return an operand of arithmetic; a boolean counts as 0 or 1.  Raises TypeError on text."""
    if isinstance(value, str | tuple):
        raise TypeError
    return value
