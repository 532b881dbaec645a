"""Constraints as text: comparisons of parameters with arithmetic and logic.

Parameter names stand in braces, since they contain dots and dashes: ``{web.workers} * 2 <= {db.connections}``,
``{cache.policy} != 'lru' or {cache.memory_mib} >= 128``.  Text is data: it is stored with the space and read back, and
only the grammar below is evaluated.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizer.errors import InvalidSpace
from optimizer.space.configuration import Value

GRAMMAR = (
    "{parameter} names, numbers, 'text', True, False, + - * / // %, == != < <= > >=, in (...), and, or, not, "
    "min(), max(), abs()"
)
_LONGEST = 500  # characters
_NAME = re.compile(r"\{([^{}]+)\}")
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
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}


@dataclass(frozen=True)
class Predicate:
    """The constraint that ``text`` is true.  ``fixed``: values of parameters left out.  Raises InvalidSpace."""

    text: str
    name: str = ""
    fixed: Mapping[str, Value] = field(default_factory=dict, hash=False)
    _tree: ast.expr = field(init=False, repr=False, compare=False)
    _names: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names: list[str] = list(dict.fromkeys(_NAME.findall(self.text)))
        plain = _NAME.sub(lambda match: f"_{names.index(match.group(1))}", self.text)
        try:
            if len(self.text) > _LONGEST:
                raise ValueError
            tree = ast.parse(plain.strip(), mode="eval").body
            _check(tree, len(names))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InvalidSpace(f"constraint {self.text!r}; allowed: {GRAMMAR}") from None
        if not names:
            raise InvalidSpace(f"constraint {self.text!r} names no parameter; allowed: names in braces")
        object.__setattr__(self, "fixed", {key: self.fixed[key] for key in names if key in self.fixed})
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "_names", tuple(names))

    @property
    def names(self) -> frozenset[str]:
        """The parameters in the text, without the fixed ones."""
        return frozenset(self._names) - self.fixed.keys()

    def holds(self, configuration: Mapping[str, Value]) -> bool:
        """Return whether the text is true; False where it has no value (division by zero, text against a number)."""
        known = [self.fixed[name] if name in self.fixed else configuration[name] for name in self._names]
        try:
            return bool(_value(self._tree, known))
        except (ArithmeticError, TypeError):
            return False

    def without(self, fixed: Mapping[str, Value]) -> Predicate:
        """Return the constraint on the other parameters, with the values of ``fixed`` put in."""
        return Predicate(self.text, self.name, {**self.fixed, **fixed})

    def __str__(self) -> str:
        return f"{self.name + ': ' if self.name else ''}{self.text}"

    def to_dict(self) -> dict[str, Any]:
        content: dict[str, Any] = {"name": self.name, "text": self.text}
        if self.fixed:
            content["fixed"] = dict(self.fixed)
        return content


def _check(node: ast.expr, names: int) -> None:
    """Check a node and those below it.  Raises ValueError on anything outside the grammar."""
    match node:
        case ast.Constant(value=int() | float() | str()):
            return
        case ast.Name(id=name) if name.startswith("_") and name[1:].isdecimal() and int(name[1:]) < names:
            return
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            parts: list[ast.expr] = [node.operand]
        case ast.BinOp(op=sign) if type(sign) in _BINARY:
            parts = [node.left, node.right]
        case ast.BoolOp():
            parts = node.values
        case ast.Compare() if all(type(sign) in _COMPARISONS for sign in node.ops):
            parts = [node.left, *node.comparators]
        case ast.Tuple():
            parts = node.elts
        case ast.Call(func=ast.Name(id=name), args=[_, *_], keywords=[]) if name in _FUNCTIONS:
            parts = node.args
        case _:
            raise ValueError
    for part in parts:
        _check(part, names)


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
