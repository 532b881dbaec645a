"""The base of the file models, and the translation of pydantic's complaints into errors that a person can act on."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from framework.config.document import Document, KeyPath, read_document
from framework.errors import FileError
from optimizer.space import ARITHMETIC, arithmetic_names


class Strict(BaseModel):
    """A frozen piece of a file: no unknown keys, no conversions ("5" is not 5), no infinities."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        """Refuse unknown keys here rather than by ``extra``: here the known ones can be listed."""
        if isinstance(data, dict):
            known = [field.alias or name for name, field in cls.model_fields.items()]
            for key in data:
                if key not in known:
                    raise refuse_key(str(key), f"the keys {', '.join(known)}{did_you_mean(key, known)}")
        return data


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'hosts'?)`` with the known name most like ``name``; empty where none is like it."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


def refuse(allowed: str) -> PydanticCustomError:
    """Make the error that a validator raises; ``allowed`` completes "found X; allowed: ..."."""
    return PydanticCustomError("refused", "{allowed}", {"allowed": allowed})


def refuse_key(key: str, allowed: str) -> PydanticCustomError:
    """Make the error of a mapping that has a key that may not be there."""
    return PydanticCustomError("unknown_key", "{allowed}", {"key": key, "allowed": allowed})


def refuse_value(key: str, allowed: str) -> PydanticCustomError:
    """Make the error of a mapping in which the value of a key does not go with the others."""
    return PydanticCustomError("refused_value", "{allowed}", {"key": key, "allowed": allowed})


def _regular_expression(pattern: str) -> str:
    groups = _compiled(pattern).groups
    if groups != 1:
        raise refuse(f"a regular expression with one group, not {groups}")
    return pattern


def _any_regular_expression(pattern: str) -> str:
    _compiled(pattern)
    return pattern


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # such as a set within a set, whose meaning is to change
            return re.compile(pattern)
    except (re.error, Warning, OverflowError, RecursionError) as error:
        raise refuse(f"a regular expression ({error})") from None


def _arithmetic(text: str) -> str:
    try:
        names = arithmetic_names(text)
    except ValueError:
        names = ()
    if not names:
        raise refuse(f"arithmetic over at least one parameter in braces: {ARITHMETIC}")
    return text


Pattern = Annotated[str, Field(min_length=1), AfterValidator(_regular_expression)]
"""A regular expression with exactly one group."""
LinePattern = Annotated[str, AfterValidator(_any_regular_expression)]
Text = Annotated[str, Field(min_length=1)]
Arithmetic = Annotated[str, AfterValidator(_arithmetic)]
"""Text that the value of a derived parameter follows from."""
Port = Annotated[int, Field(ge=1, le=65535)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Value = int | float | str | bool


Model = TypeVar("Model", bound=Strict)


def load(path: Path, model: type[Model]) -> tuple[Document, Model]:
    """Read a file as ``model``.  Raises FileError."""
    document = read_document(path)
    return document, check(document, model)


def check(document: Document, model: type[Model]) -> Model:
    """Validate a document.  Raises FileError for the first problem in the file, with the number of the others."""
    if not isinstance(document.data, dict):
        raise FileError(document.path, "", _shown(document.data), "a mapping of keys to values")
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise _first(document, error) from None


def _first(document: Document, error: ValidationError) -> FileError:
    complaints: dict[KeyPath, tuple[object, list[str]]] = {}
    for item in error.errors(include_url=False):
        place, found, allowed = _complaint(document, dict(item))
        complaints.setdefault(place, (found, []))[1].append(allowed)
    for place in [*complaints]:  # of a value that may be of several kinds, the kind is meant whose parts were looked at
        if any(other[: len(place)] == place for other in complaints if len(other) > len(place)):
            del complaints[place]
    place = min(complaints, key=lambda key: (document.error(key, "", "").key == "", _line(document, key)))
    found, reasons = complaints[place]
    text = " or ".join(dict.fromkeys(reasons))
    others = len(complaints) - 1
    if others:
        text += f" (and {others} more problem{'s' if others > 1 else ''} in this file)"
    return document.error(place, found, text)


def _line(document: Document, key: KeyPath) -> int:
    while key and key not in document.lines:
        key = key[:-1]
    return document.lines.get(key, 0)


def _complaint(document: Document, item: dict[str, Any]) -> tuple[KeyPath, object, str]:
    """Turn one of pydantic's errors into (key path, value found, values allowed)."""
    place: list[str | int] = []
    at: Any = document.data
    for part in item["loc"]:
        # pydantic's path also names the members of unions; the key path has only keys that are in the file.
        if (isinstance(at, dict) and part in at) or (isinstance(at, list) and isinstance(part, int) and part < len(at)):
            at = at[part]
            place.append(part)
    kind, context = item["type"], item.get("ctx", {})
    if item["loc"] and item["loc"][-1] == "[key]":
        return tuple(place), item["input"], _allowed(item)
    if kind == "missing":
        return tuple(place), "nothing", f"the key {item['loc'][-1]!r}"
    if kind == "unknown_key":
        return (*place, context["key"]), context["key"], context["allowed"]
    if kind == "refused_value":
        return (*place, context["key"]), _shown(at[context["key"]]), context["allowed"]
    return tuple(place), _shown(at), _allowed(item)


def _allowed(item: dict[str, Any]) -> str:
    """Return the values that pydantic accepts, in words that follow "allowed:"."""
    if item["type"] == "literal_error":
        return str(item["ctx"]["expected"])
    if item["type"] == "string_pattern_mismatch":
        return f"text that matches {item['ctx']['pattern']}"
    return re.sub(r"^Input should be |^(String|List|Dictionary) should ", "", str(item["msg"]))


def _shown(value: Any) -> Any:
    """Shorten a value so that it fits into one line of a message."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        if list(value) == ["low", "likely", "high"]:
            return ", ".join(f"{name} {_shown(end)}" for name, end in value.items())
        return f"a mapping with the keys {', '.join(map(str, value))}" if value else "an empty mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return value
