"""Configurations: immutable points of a search space, with one canonical text per point.

They are compared, hashed, stored and rendered everywhere; this module alone decides when two of them are equal.
"""

from __future__ import annotations

import hashlib
import json
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from optimizer.errors import InvalidValue

Value = int | float | str | bool


def plain(name: str, value: object) -> Value:
    """Return ``value`` (a numpy scalar, too) as a plain Python bool, int, float or str.  Raises InvalidValue."""
    if type(value) is int or type(value) is str or type(value) is bool:
        return value  # the common case, ten times faster than the rest
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        if math.isfinite(number):
            return number + 0.0  # -0.0 becomes 0.0: one number, one key
        raise InvalidValue(name, value, "a finite number")
    if isinstance(value, str):
        return str(value)
    raise InvalidValue(name, value, "an integer, a real number, a boolean or a string")


def digest_of(text: str) -> str:
    """Return 16 hexadecimal digits of the text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Configuration(Mapping[str, Value]):
    """One point of a search space: parameter name -> value.  Immutable and hashable.

    Two configurations are equal if they have the same names, kinds and values: True is not 1, and 1 is not 1.0.
    """

    __slots__ = ("_key", "_values")
    _key: str
    _values: dict[str, Value]

    def __init__(self, values: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        content = {name: plain(name, value) for name, value in dict(values).items()}
        object.__setattr__(self, "_values", content)
        object.__setattr__(self, "_key", json.dumps(content, sort_keys=True, separators=(",", ":")))

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Configuration is immutable; use replace()")

    def __reduce__(self) -> tuple[type[Configuration], tuple[dict[str, Value]]]:
        return (Configuration, (self.to_dict(),))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Configuration):
            return self._key == other._key
        if isinstance(other, Mapping):
            return len(self) == len(other) and all(
                name in other and type(other[name]) is type(value) and other[name] == value
                for name, value in self._values.items()
            )
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Configuration({self._values!r})"

    def replace(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> Configuration:
        """Return a copy with some values changed.  Raises InvalidValue on an unknown name or no plain value."""
        wanted = {**(changes or {}), **more}
        for name, value in wanted.items():
            if name not in self._values:
                raise InvalidValue(name, value, f"one of the parameters {', '.join(self._values)}")
        return Configuration({**self._values, **wanted})

    def to_dict(self) -> dict[str, Value]:
        """Return a new plain dictionary, in the order given."""
        return dict(self._values)

    def key(self) -> str:
        """Return canonical JSON text: equal configurations, and only these, have equal keys, in any process."""
        return self._key

    def digest(self) -> str:
        """Return 16 hexadecimal digits of the key's SHA-256: short enough for labels and file names."""
        return digest_of(self._key)
