"""Options as fields of a body: JSON types and limits are derived from the declarations of the options.

HTTP does not carry paths.  An option that takes a file or another value takes only the other value here.  An option
that takes only a file is no field, unless the service keeps such a file itself (``Option.kept``): then the field says
whether to use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Field, create_model

from framework.model import StudyId, TuneRequest
from framework.model.options import Declared, Option, options_of

ID = "[0-9A-Za-z][0-9A-Za-z-]{0,63}"
LONGEST_CHOICE = 80
MOST_NUMBERS = 20

Name = Annotated[str, Field(min_length=1, max_length=128)]
Names = Annotated[list[Name], Field(max_length=500)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
FewNumbers = Annotated[dict[Name, Finite], Field(max_length=20)]
Scalar = bool | int | Finite | Annotated[str, Field(max_length=500)] | None
Options = Annotated[dict[Name, Scalar | Annotated[list[Scalar], Field(max_length=100)]], Field(max_length=50)]

Model = TypeVar("Model", bound=BaseModel)


def with_options(body: type[Model]) -> type[Model]:
    """Add the options of a TuneRequest to the fields of a body; a decorator."""
    fields: dict[str, Any] = dict(body_fields())
    return create_model(body.__name__, __base__=body, __doc__=body.__doc__, __module__=body.__module__, **fields)


def body_fields() -> Mapping[str, tuple[Any, Any]]:
    """Return name -> (type, default), for pydantic, of each option of a TuneRequest that HTTP can carry."""
    options = options_of(TuneRequest)
    fields = {}
    for name, declared in options.items():
        suffixes = [
            other for other in options.values() if other.option.within == name and _json_type(other, []) is None
        ]
        kind = _json_type(declared, suffixes)
        if kind is not None and not declared.option.hidden:
            fields[name] = (kind, _default(declared, suffixes))
    return fields


def value_of(declared: Declared, value: Any) -> Any:
    """Return the value of an option in a request for its value in a body."""
    if isinstance(value, list):
        return tuple(map(StudyId, value)) if StudyId in _members(get_args(declared.type)[0]) else tuple(value)
    return value


def _default(declared: Declared, suffixes: list[Declared]) -> Any:
    """Return the default with the description; lists and mappings are made anew for each body."""
    option, default = declared.option, declared.default
    if option.kept:
        default = False
    described: dict[str, Any] = {"description": _description(option, suffixes)}
    if isinstance(default, tuple):
        return Field(default_factory=list, **described)
    if isinstance(default, Mapping):
        return Field(default_factory=dict, **described)
    return Field(default, **described)


def _description(option: Option, suffixes: list[Declared]) -> str:
    if suffixes:
        suffixed = {other.name for other in suffixes}
        forms = [f"{choice}:STUDY" if choice in suffixed else choice for choice in option.choices]
        return f"{option.help} ({', '.join(forms)})"
    return f"{option.help} [{option.unit}]" if option.unit in ("s", "ms") else option.help


def _json_type(declared: Declared, suffixes: list[Declared]) -> Any:
    """Return the type of a field; None where there is no field.

    ``suffixes``: options that are written behind one of this option's choices, as in "screening:STUDY".
    """
    if declared.option.kept:
        return bool
    members = _members(declared.type)
    kinds = [kind for kind in members if kind not in (NoneType, Path)]
    if not kinds:
        return None
    if len(kinds) == 2:  # a number, or a word
        number, word = (_type_of(kind, declared.option, suffixes) for kind in kinds)
        return number | word
    [kind] = kinds
    json_type = _type_of(kind, declared.option, suffixes)
    return json_type | None if NoneType in members and json_type is not None else json_type


def _type_of(kind: Any, option: Option, suffixes: list[Declared]) -> Any:
    if kind is bool or get_origin(kind) is Literal:
        return kind
    if kind in (int, float):
        return _number(kind, option)
    if kind is str:
        return _text(option, suffixes)
    if get_origin(kind) is tuple and get_args(kind)[0] is float:
        number = _number(float, option)
        return Annotated[list[number], Field(max_length=MOST_NUMBERS)]  # type: ignore[valid-type]  # made of the option
    if get_origin(kind) is tuple:
        return _list([member for member in _members(get_args(kind)[0]) if member is not Path])
    if get_origin(kind) is Mapping:
        return Options if get_args(kind)[1] is Any else FewNumbers
    return None  # a text that is written within another option


def _number(kind: Any, option: Option) -> Any:
    most = option.high_over_http if option.high is None else option.high
    limits = {"ge": option.low, "gt": option.above, "le": most, "allow_inf_nan": None if kind is int else False}
    given: dict[str, Any] = {name: limit for name, limit in limits.items() if limit is not None}
    return Annotated[kind, Field(**given)]


def _text(option: Option, suffixes: list[Declared]) -> Any:
    if suffixes:
        suffixed = {other.name for other in suffixes}
        forms = [f"{choice}:{ID}" if choice in suffixed else choice.replace("+", "[+]") for choice in option.choices]
        return Annotated[str, Field(pattern=f"^({'|'.join(forms)})$", max_length=LONGEST_CHOICE)]
    if option.choices:
        return Literal[option.choices]
    return Annotated[str, Field(max_length=option.longest)] if option.longest else Name


def _list(kinds: list[Any]) -> Any:
    if not kinds:
        return None
    if kinds == [StudyId]:
        return Annotated[list[Annotated[str, Field(pattern=f"^{ID}$")]], Field(max_length=20)]
    return Names


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
