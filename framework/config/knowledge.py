"""The knowledge base: the files of ``search_spaces/`` as service types, resolved for a host and an image version."""

from __future__ import annotations

import math
import operator
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from framework.config.checked import load
from framework.config.expressions import Host, evaluate
from framework.config.service_type_file import ServiceTypeFile
from framework.errors import FileError, InputError, MissingPrerequisite
from framework.model import ParameterDefinition, ServiceType
from optimizer.space import Value

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}


def built_in_directory() -> Path:
    """Find Tailor's own search_spaces: next to this module when installed, at the top of the tree in a checkout.

    Raises MissingPrerequisite.
    """
    here = Path(__file__).parent
    for directory in (here / "search_spaces", here.parents[1] / "search_spaces"):
        if directory.is_dir():
            return directory
    raise MissingPrerequisite("the directory search_spaces of this installation is missing", "install Tailor again")


def load_service_types(directories: Iterable[Path] = ()) -> dict[str, ServiceType]:
    """Read the service types by name, from Tailor's own directory and from ``directories`` (see ``Settings.spaces``).

    Raises FileError on a file that is malformed or not named after its type, and on a name that is already taken.
    """
    types: dict[str, ServiceType] = {}
    origin: dict[str, Path] = {}
    for directory in (built_in_directory(), *directories):
        if not Path(directory).is_dir():
            raise FileError(directory, "", "no such directory", "a directory of service types")
        for path in sorted(Path(directory).glob("*.yaml")):
            service_type = load_service_type(path)
            name = service_type.name
            if name in types:
                raise FileError(path, "name", name, f"a name that {origin[name]} does not have already")
            types[name], origin[name] = service_type, path
    return {name: _whole(name, types, origin, ()) for name in types}


def _whole(
    name: str, types: Mapping[str, ServiceType], origin: Mapping[str, Path], below: tuple[str, ...]
) -> ServiceType:
    """Return a type with what the type that it builds on has; its own definitions come before that one's.

    ``below``: the types that build on it.  Raises FileError where there is no such type, or a circle.
    """
    own = types[name]
    if not own.builds_on:
        return own
    if own.builds_on not in types or own.builds_on in (*below, name):
        known = ", ".join(sorted(types.keys() - {name, *below}))
        raise FileError(origin[name], "builds_on", own.builds_on, f"another type, without a circle: {known}")
    other = _whole(own.builds_on, types, origin, (*below, name))
    mine = {parameter.name for parameter in own.parameters}
    inherited = tuple(parameter for parameter in other.parameters if parameter.name not in mine)
    if own.command:
        inherited = tuple(_with_command(parameter, own.command) for parameter in inherited)
    return replace(
        own,
        parameters=(*inherited, *own.parameters),
        command=own.command or other.command,
        most_cores=own.most_cores or other.most_cores,
        ready=own.ready or other.ready,
        reset=own.reset or other.reset,
        statistics={**other.statistics, **own.statistics},
        arguments={**other.arguments, **own.arguments},
    )


def _with_command(parameter: ParameterDefinition, command: Sequence[str]) -> ParameterDefinition:
    """Return a parameter whose flag is appended to this command, where the compose file has none."""
    if parameter.apply.kind != "flag":
        return parameter
    return replace(parameter, apply=replace(parameter.apply, name=shlex.join(command)))


def load_service_type(path: Path) -> ServiceType:
    """Read one service type; a file that has not changed is read once.  Raises FileError."""
    try:
        stamp = path.stat()
    except OSError:  # the reader raises the error
        return _read(path)
    return _cached(path, stamp.st_mtime_ns, stamp.st_size)


def _read(path: Path) -> ServiceType:
    document, file = load(path, ServiceTypeFile)
    if path.stem != file.name:
        raise document.error(("name",), file.name, f"{path.stem!r}, the name of the file")
    return file.service_type()


@lru_cache(maxsize=256)
def _cached(path: Path, modified_ns: int, size: int) -> ServiceType:
    """Read a file once for each of its versions: many requests of the REST API need the knowledge base."""
    return _read(path)


def resolved(types: Mapping[str, ServiceType], *, cores: int, memory_mib: int) -> dict[str, ServiceType]:
    """Evaluate every bound and default of the types on a host of this size.  Raises InputError.

    An integer's low is rounded up, its high and default down.  A default is what the server does by itself, so it is
    never moved: a bound on the wrong side of it is moved to the default.
    """
    host = Host(cores, memory_mib)
    return {
        name: replace(
            kind,
            parameters=tuple(_resolved(name, parameter, host) for parameter in kind.parameters),
            host=(cores, memory_mib),
        )
        for name, kind in types.items()
    }


def resolved_like(
    parameters: Iterable[ParameterDefinition], types: Mapping[str, ServiceType], owner: str
) -> tuple[ParameterDefinition, ...]:
    """Evaluate the bounds of parameters for the host that ``types`` are resolved for; unchanged where they are not.

    ``owner``: in messages.  Raises InputError.
    """
    size = next((kind.host for kind in types.values() if kind.host is not None), None)
    if size is None:
        return tuple(parameters)
    host = Host(*size)
    return tuple(_resolved(owner, parameter, host) for parameter in parameters)


def _resolved(type_name: str, parameter: ParameterDefinition, host: Host) -> ParameterDefinition:
    if parameter.kind not in ("integer", "real"):
        return parameter
    try:
        default = evaluate(_number(parameter.default), host)
        low = evaluate(_number(parameter.low), host)
        high = evaluate(_number(parameter.high), host)
        parameter = _with_absent(parameter, host)
    except InputError as error:
        raise InputError(f"{type_name}.{parameter.name}: {error}") from None
    if parameter.kind == "integer":
        default, low, high = math.floor(default), math.ceil(low), math.floor(high)
    else:
        default = float(default)
    if default in parameter.special:
        high = max(low, high)
    else:
        low, high = min(low, default), max(high, default)
    special = tuple(value for value in parameter.special if not low <= value <= high)
    if parameter.scale == "log" and low <= 0:
        raise InputError(f"{type_name}.{parameter.name}: low is {low} on this host; a log scale needs more than 0")
    return replace(parameter, default=default, low=low, high=high, special=special)


def _with_absent(parameter: ParameterDefinition, host: Host) -> ParameterDefinition:
    """Evaluate the values that a number has where its server, or its file, says nothing of it.  Raises InputError."""

    def number(value: Value | None) -> Value | None:
        if value is None or not isinstance(value, str):
            return value
        result = evaluate(value, host)
        return math.floor(result) if parameter.kind == "integer" else result

    probe = parameter.read_back
    edits = tuple(replace(edit, absent=number(edit.absent)) for edit in parameter.apply.edits)
    return replace(
        parameter,
        apply=replace(parameter.apply, edits=edits),
        read_back=replace(probe, absent=number(probe.absent)) if probe is not None else None,
    )


def _number(value: object) -> float | str:
    """Check that a bound is a number or text: definitions that were not read from a file may hold anything."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        return value
    raise InputError(f"found {value!r}; allowed: a number or an expression")


def available(service_type: ServiceType, image: str) -> tuple[ParameterDefinition, ...]:
    """Return the parameters of the version in ``image``'s tag; all of them where the tag names no version."""
    return for_version(service_type.parameters, image)


def for_version(parameters: Iterable[ParameterDefinition], image: str) -> tuple[ParameterDefinition, ...]:
    """Return the parameters that the version in an image's tag has; all of them where the tag names no version."""
    version = image_version(image)
    return tuple(p for p in parameters if version is None or _includes(p.versions, version))


def image_version(image: str) -> tuple[int, ...] | None:
    """Read the version from an image's tag, ``redis:7.0-alpine`` -> (7, 0); None where it begins with no number.

    A hash that begins with digits is no version.
    """
    tag = image.split("@")[0].rpartition("/")[2].partition(":")[2]
    match = re.match(r"v?([0-9]+(?:\.[0-9]+)*)(?![0-9A-Za-z])", tag)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def _includes(versions: str, version: tuple[int, ...]) -> bool:
    for text in filter(None, versions.replace(" ", "").split(",")):
        match = re.fullmatch(r"(>=|<=|==|>|<)([0-9.]+)", text)
        if match is None:
            raise InputError(f"versions: found {versions!r}; allowed: comparisons such as '>=1.4'")
        wanted = tuple(int(part) for part in match[2].split("."))
        # A tag such as 15 stands for the newest 15.x: only the parts that both name are compared.
        length = min(len(wanted), len(version))
        if not _COMPARE[match[1]](version[:length], wanted[:length]):
            return False
    return True
