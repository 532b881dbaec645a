"""Options of a command, made of their declaration: flags, and the fields of a request from what is typed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import typer

from framework.cli import terminal
from framework.model import StudyId, TuneRequest
from framework.model.options import Declared, options_of

Command = TypeVar("Command", bound=Callable[..., None])


def with_options(command: Command) -> Command:
    """Decorate a command: in place of its ``**given`` stand the options of a TuneRequest that it takes."""
    signature = inspect.signature(command, eval_str=True)
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in signature.parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    first = [parameter for parameter in own if parameter.default is inspect.Parameter.empty]
    last = [parameter for parameter in own if parameter not in first]
    declared = [_parameter(option) for option in _taken(command.__name__)]
    described: Any = command  # a signature is no attribute of every callable's type
    described.__signature__ = signature.replace(parameters=[*first, *declared, *last])
    return command


def with_table(table: Mapping[str, tuple[Any, Any, Any]]) -> Callable[[Command], Command]:
    """Decorate a command: in place of its ``**given`` stand the options of a table, name -> (type, default, option)."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        of_table = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])
            for name, (kind, default, option) in table.items()
        ]
        required = [parameter for parameter in own if parameter.default is inspect.Parameter.empty]
        last = [parameter for parameter in own if parameter not in required]
        described: Any = command  # a signature is no attribute of every callable's type
        described.__signature__ = signature.replace(parameters=[*required, *of_table, *last])
        return command

    return decorate


def request_of(application: Path, given: Mapping[str, Any], named: Collection[str] = ()) -> TuneRequest:
    """Return the request of what was typed.  ``named``: the options that were.  Raises InputError."""
    known = options_of(TuneRequest)
    values = {name: _value(known[name], typed) for name, typed in given.items()}
    stated = {"application": application, "given": frozenset(named)}
    return TuneRequest(**{**values, **terminal.reduction(given["reduce"]), **stated})


def typed_in(context: typer.Context, fields: Mapping[str, str] = MappingProxyType({})) -> frozenset[str]:
    """Return the names of the options that stand on the command line.  ``fields``: parameter -> name in a request."""
    typed = {name for name in context.params if _source(context, name) == "COMMANDLINE"}
    return frozenset(fields.get(name, name) for name in typed)


def _source(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    return "" if source is None else source.name


def option_of(name: str) -> Any:
    """Return flag and help of an option of a TuneRequest, for another command that has it with a default of its own."""
    return _option(options_of(TuneRequest)[name])


def _taken(command: str) -> list[Declared]:
    known = options_of(TuneRequest).values()
    return [declared for declared in known if declared.flag and declared.option.command == command]


def _parameter(declared: Declared) -> inspect.Parameter:
    kind, default = _typed(declared)
    return inspect.Parameter(
        declared.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, _option(declared)]
    )


def _option(declared: Declared) -> Any:
    return typer.Option(declared.flag, help=_help(declared), hidden=declared.option.hidden)


def _typed(declared: Declared) -> tuple[Any, Any]:
    """Return the type that the command line reads, and the default as one would type it."""
    members, default = _members(declared.type), declared.default
    many = next((kind for kind in members if get_origin(kind) in (tuple, Mapping)), None)
    if many is not None:
        return list[Path] | None if get_args(many)[0] is Path else list[str] | None, None
    if declared.is_duration:
        return (str | None, None) if default is None else (str, f"{default:g}{declared.option.unit}")
    if declared.type is bool:
        return bool, False
    if any(get_origin(kind) is Literal for kind in members):
        return str, str(default)
    return declared.type, default


def _value(declared: Declared, typed: Any) -> Any:
    """Return the value of a field for what was typed.  Raises InputError."""
    members = _members(declared.type)
    if declared.type is bool:
        return typed != declared.default  # a flag changes it
    if typed is None or typed in ([], ()):
        return declared.default
    if declared.is_duration:
        seconds = terminal.seconds(declared.flag, typed)
        return seconds if declared.option.unit == "s" else 1e3 * seconds
    if any(get_origin(kind) is Literal for kind in members):
        if int in members:
            return terminal.integer(typed, declared.flag, [word for kind in members for word in get_args(kind)])
        return terminal.initial(typed) if Path in members else typed
    for kind in members:
        if get_origin(kind) is Mapping:
            read = terminal.values if get_args(kind)[1] is Any else terminal.limits
            return read(typed, declared.flag)
        if get_origin(kind) is tuple and get_args(kind)[0] is float:
            return terminal.numbers(typed, declared.flag)
        if get_origin(kind) is tuple:
            of_tuple = _members(get_args(kind)[0])
            if declared.option.commas:
                return tuple(part for text in typed for part in text.split(","))
            if StudyId not in of_tuple:
                return tuple(typed)
            return terminal.history(typed) if Path in of_tuple else tuple(map(StudyId, typed))
    return typed


def _help(declared: Declared) -> str:
    """Make a sentence: the declared help, how to write it, and what holds where it is not given."""
    option, members = declared.option, _members(declared.type)
    text = option.help
    if option.choices:
        forms = [f"{choice}{_behind(declared.name, choice)}" for choice in option.choices]
        text += f" ({', '.join(filter(None, [*forms, option.written]))})"
    elif option.written:
        text += f", {option.written}"
    if option.high is not None:
        text += f" ({option.range()})"
    if any(get_origin(kind) is Mapping for kind in members):
        text += ", as name=value"
    if any(get_origin(kind) in (tuple, Mapping) and get_args(kind)[0] is not float for kind in members):
        text += " (repeatable)"
    return f"{text} [default: {option.absent}]." if option.absent else f"{text}."


def _behind(name: str, choice: str) -> str:
    """Return ``:FILE`` or ``:STUDY`` where an option is written behind a choice of the option ``name``."""
    option = options_of(TuneRequest).get(choice)
    if option is None or option.option.within != name:
        return ""
    return ":FILE" if Path in _members(option.type) else ":STUDY"


def _members(union: Any) -> tuple[Any, ...]:
    """Return the types of a union, None left out."""
    members = get_args(union) if get_origin(union) in (Union, UnionType) else (union,)
    return tuple(kind for kind in members if kind is not NoneType)
