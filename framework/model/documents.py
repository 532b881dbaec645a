"""Conversion of frozen dataclasses to JSON values and back, by their type hints.

The store keeps whole measurements, plans and verdicts as JSON columns, so that a new field needs no migration: a field
missing in an old document takes the dataclass's default.  Arrays are left out here and kept as artefacts.  JSON has no
infinity, so ``inf``, ``-inf`` and ``nan`` become strings.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from optimizer.space import Configuration

T = TypeVar("T")


def encode(value: Any) -> Any:
    """Return the JSON value of a dataclass, mapping, sequence or scalar."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {name: encode(item) for name, item in pairs if not isinstance(item, np.ndarray)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def decode(kind: type[T], value: Any) -> T:
    """Return the ``kind`` that ``encode`` made a document of.  Raises ValueError or TypeError for another document."""
    return typing.cast(T, _decode(kind, value))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any or origin is typing.Literal:
        return value
    if origin in (types.UnionType, typing.Union):
        return _decode_union(typing.get_args(kind), value)
    if kind is Configuration:
        return Configuration(value)
    if origin is not None and issubclass(origin, Mapping):
        item = typing.get_args(kind)[1]
        return {key: _decode(item, element) for key, element in value.items()}
    if origin is tuple:
        item = typing.get_args(kind)[0]
        return tuple(_decode(item, element) for element in value)
    if dataclasses.is_dataclass(kind):
        hints = _hints(typing.cast(type, kind))
        known = {f.name for f in dataclasses.fields(kind)}
        return kind(**{name: _decode(hints[name], item) for name, item in value.items() if name in known})  # type: ignore[operator]  # kind is a class here
    if kind is float:
        return float(value)
    if isinstance(kind, type) and issubclass(kind, (Enum, Path)):
        return kind(value)
    return value


def _decode_union(kinds: tuple[Any, ...], value: Any) -> Any:
    if value is None:
        return None
    others = [kind for kind in kinds if kind is not type(None)]
    return _decode(others[0], value) if len(others) == 1 else value


def conform(kind: Any, value: Any, where: str = "") -> None:
    """Raise TypeError where a part of a decoded value has another type than its class declares.

    ``decode`` trusts its input, which the store wrote; a document from elsewhere has to pass this check too.
    """
    origin = typing.get_origin(kind)
    if kind is Any or origin is np.ndarray:
        return
    if origin is typing.Literal:
        fits = value in typing.get_args(kind) if isinstance(value, str) else False
    elif origin in (types.UnionType, typing.Union):
        _conform_union(typing.get_args(kind), value, where)
        return
    elif kind is Configuration:
        fits = all(isinstance(element, (bool, int, float, str)) for element in value.values())
    elif origin is not None and issubclass(origin, Mapping):
        fits = isinstance(value, Mapping)
        for key, element in value.items() if fits else ():
            conform(str, key, where)
            conform(typing.get_args(kind)[1], element, f"{where}.{key}")
    elif origin is tuple:
        fits = isinstance(value, tuple)
        for element in value if fits else ():
            conform(typing.get_args(kind)[0], element, where)
    elif dataclasses.is_dataclass(kind):
        fits = isinstance(value, typing.cast(type, kind))
        hints = _hints(typing.cast(type, kind))
        for field in dataclasses.fields(kind) if fits else ():
            conform(hints[field.name], getattr(value, field.name), f"{where}.{field.name}")
    elif kind in (int, float):
        fits = isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
    else:
        fits = isinstance(value, kind)
    if not fits:
        raise TypeError(f"{where.lstrip('.')}: {type(value).__name__}")


def _conform_union(kinds: tuple[Any, ...], value: Any, where: str) -> None:
    for kind in kinds:
        try:
            conform(kind, value, where)
        except TypeError:
            continue
        return
    raise TypeError(f"{where.lstrip('.')}: {type(value).__name__}")
