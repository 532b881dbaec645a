"""Values at key paths of TOML, ini and properties files, replaced in their lines: comments and order stay.

What a TOML file says afterwards is read by the standard library, and has to be what was meant.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from framework.config.key_paths import NoPlace, Part, Where, shown

_SECTION = re.compile(r"^\s*\[(?P<name>[^\]]+)\]\s*(?:[#;].*)?$")
_SETTING = re.compile(r"^(?P<head>\s*(?P<key>[^\s=:#;\[!][^=:]*?)\s*[=:]\s*)(?P<value>.*?)(?P<tail>\s*|\s+[#;].*)$")
_PROPERTY = re.compile(r"^(?P<head>\s*(?P<key>[^\s=:#!][^\s=:]*)(?:\s*[=:]\s*|\s+))(?P<value>.*?)(?P<tail>\s*)$")
_TOML_LINE = re.compile(
    r"""^(?P<head>\s*[^=#\[]+?\s*=\s*)(?P<value>"(?:\\.|[^"\\])*"|'[^']*'|[^\s#"'\[{][^#]*?)(?P<tail>\s*(?:#.*)?)$"""
)
_QUOTES = ("'", '"')


# --------------------------------------------------------------------------- ini and properties


def ini_values(text: str, parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the last value of a key of an ini file, ``section.key``, without quotes.  Raises NoPlace."""
    section, key = _section_and_key(parts)
    lines = [match["value"] for _, match in _ini_lines(text.splitlines(), section) if match["key"] == key]
    return (_unquoted(lines[-1]),) if lines else ()


def ini_with(text: str, parts: Sequence[Part], value: str) -> str:
    """Return an ini file with a key's value, in its section, which is made where it is missing.  Raises NoPlace."""
    section, key = _section_and_key(parts)
    lines = text.splitlines()
    settings = list(_ini_lines(lines, section))
    known = [(at, match) for at, match in settings if match["key"] == key]
    for at, match in known:
        lines[at] = match["head"] + _quoted_like(match["value"], value) + match["tail"]
    if not known:
        spaced = any(" = " in line for line in lines) or not any("=" in line for line in lines)
        line = f"{key}{' = ' if spaced else '='}{value}"
        heads = [at for at, old in enumerate(lines) if section and _section_of(old) == section]
        if settings:
            lines.insert(settings[-1][0] + 1, line)
        elif heads:
            lines.insert(heads[0] + 1, line)
        elif section:
            lines += [*([""] if lines else []), f"[{section}]", line]
        else:
            first = next((at for at, old in enumerate(lines) if _section_of(old) is not None), len(lines))
            lines.insert(first, line)
    return "\n".join(lines) + "\n"


def property_values(text: str, parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the last value of a key of a properties file, whose name has dots.  Raises NoPlace."""
    name = _dotted(parts)
    values = [match["value"] for _, match in _property_lines(text.splitlines()) if match["key"] == name]
    return tuple(values[-1:])


def property_with(text: str, parts: Sequence[Part], value: str) -> str:
    """Return a properties file with a key's value.  Raises NoPlace."""
    name = _dotted(parts)
    lines = text.splitlines()
    known = [(at, match) for at, match in _property_lines(lines) if match["key"] == name]
    for at, match in known:
        if match["value"].endswith("\\"):
            raise NoPlace(f"{name} goes on in the next line")
        lines[at] = match["head"] + value + match["tail"]
    if not known:
        lines.append(f"{name}={value}")
    return "\n".join(lines) + "\n"


def _section_and_key(parts: Sequence[Part]) -> tuple[str, str]:
    names = _names(parts)
    return (names[0], ".".join(names[1:])) if len(names) > 1 else ("", names[0])


def _dotted(parts: Sequence[Part]) -> str:
    return ".".join(_names(parts))


def _names(parts: Sequence[Part]) -> list[str]:
    names = [part for part in parts if isinstance(part, str)]
    if len(names) < len(parts):
        raise NoPlace(f"such a file has no lists, and {shown(tuple(parts))} selects items of one")
    return names


def _section_of(line: str) -> str | None:
    match = _SECTION.match(line)
    return match["name"].strip() if match else None


def _ini_lines(lines: Sequence[str], section: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield number and match of every setting of a section; "" is the part before any section."""
    current = ""
    for at, line in enumerate(lines):
        name = _section_of(line)
        if name is not None:
            current = name
        elif current == section and (match := _SETTING.match(line)):
            yield at, match


def _property_lines(lines: Sequence[str]) -> Iterator[tuple[int, re.Match[str]]]:
    goes_on = False
    for at, line in enumerate(lines):
        if not goes_on and (match := _PROPERTY.match(line)):
            yield at, match
        stripped = line.lstrip()
        goes_on = line.endswith("\\") and not (stripped.startswith(("#", "!")) and not goes_on)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0] else text


def _quoted_like(old: str, value: str) -> str:
    return old[0] + value + old[0] if _unquoted(old) != old else value


# --------------------------------------------------------------------------- TOML


def toml_values(text: str, parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the texts of the scalars at a key path of a TOML file; none where it has none.  Raises NoPlace."""
    data = _toml(text)
    values = []
    for path in _toml_paths(data, tuple(parts)):
        value = _at(data, path)
        if isinstance(value, bool):
            values.append("true" if value else "false")
        elif isinstance(value, int | float | str):
            values.append(str(value))
    return tuple(values)


def toml_with(text: str, parts: Sequence[Part], value: str, *, string: bool) -> str:
    """Return a TOML file with a value at a key path; ``string``: it is text.  Raises NoPlace."""
    data = _toml(text)
    for path in _toml_paths(data, tuple(parts)):
        old = _at(data, path)
        literal = json.dumps(value, ensure_ascii=False)
        if not string and not isinstance(old, str) and _is_toml(value):
            literal = value
        meant = copy.deepcopy(data)
        _put(meant, path, tomllib.loads(f"value = {literal}")["value"])
        text = _toml_line_with(text, path, literal)
        if not _says(text, meant):
            raise NoPlace(f"{shown(path)} stands in a form that cannot be changed line by line")
        data = meant
    return text


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NoPlace(f"it cannot be read as TOML: {error}") from None


def _says(text: str, meant: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == meant
    except tomllib.TOMLDecodeError:
        return False


def _is_toml(text: str) -> bool:
    try:
        return not isinstance(tomllib.loads(f"value = {text}")["value"], dict | list)
    except tomllib.TOMLDecodeError:
        return False


_Concrete = tuple[str | int, ...]


def _toml_paths(data: Any, parts: tuple[Part, ...], above: _Concrete = ()) -> list[_Concrete]:
    """Return the paths that a key path selects, with an index for every selection of items.  Raises NoPlace."""
    if not parts:
        return [above]
    part, rest = parts[0], parts[1:]
    if isinstance(part, str):
        if data is not None and not isinstance(data, dict):
            raise NoPlace(f"{shown(above)} is no table")
        return _toml_paths((data or {}).get(part), rest, (*above, part))
    items = data if isinstance(data, list) else []
    if isinstance(part, int):
        chosen = [part] if part < len(items) else []
    else:
        chosen = [at for at, item in enumerate(items) if _is_selected(item, part)]
    if not chosen:
        raise NoPlace(f"no item of {shown(above)} is {shown((part,))}")
    return [path for at in chosen for path in _toml_paths(items[at], rest, (*above, at))]


def _is_selected(item: Any, where: Where) -> bool:
    return not where.key or (isinstance(item, dict) and str(item.get(where.key)) == where.value)


def _at(data: Any, path: _Concrete) -> Any:
    for part in path:
        inner = data.get(part) if isinstance(data, dict) else None
        data = data[part] if isinstance(part, int) else inner
    return data


def _put(data: Any, path: _Concrete, value: Any) -> None:
    for part in path[:-1]:
        data = data.setdefault(part, {}) if isinstance(part, str) else data[part]
    if not isinstance(data, dict) or isinstance(data.get(path[-1]), dict | list):
        raise NoPlace(f"{shown(path)} is a table or a list, not a value")
    data[path[-1]] = value


def _toml_line_with(text: str, path: _Concrete, literal: str) -> str:
    """Change the line of a value, or add one below the nearest table that the file has."""
    lines = text.splitlines()
    table: _Concrete = ()
    heads: dict[_Concrete, int] = {}
    counts: dict[_Concrete, int] = {}
    for at, line in enumerate(lines):
        names = _toml_head(line)
        if names is not None:
            table = _concrete(names, counts, is_list=line.lstrip().startswith("[["))
            heads.setdefault(table, at)
        elif (match := _TOML_LINE.match(line)) and (*table, *_toml_key(match)) == path:
            lines[at] = match["head"] + literal + match["tail"]
            return "\n".join(lines) + "\n"
    for count in range(len(path) - 1, 0, -1):
        if path[:count] in heads and all(isinstance(part, str) for part in path[count:]):
            lines.insert(heads[path[:count]] + 1, f"{_toml_name(path[count:])} = {literal}")
            break
    else:
        if len(path) == 1:
            lines.insert(min(heads.values(), default=len(lines)), f"{_toml_name(path)} = {literal}")
        else:
            lines += [*([""] if lines else []), f"[{_toml_name(path[:-1])}]", f"{_toml_name(path[-1:])} = {literal}"]
    return "\n".join(lines) + "\n"


def _toml_head(line: str) -> tuple[str, ...] | None:
    """Return the names in a line ``[a.b]`` or ``[[a.b]]``; None for other lines."""
    if not line.lstrip().startswith("["):
        return None
    try:
        return _names_of(tomllib.loads(line))
    except tomllib.TOMLDecodeError:
        return None  # an item of a list of several lines


def _toml_key(match: re.Match[str]) -> tuple[str, ...]:
    try:
        return _names_of(tomllib.loads(match["head"] + "1"))
    except tomllib.TOMLDecodeError:
        return ()


def _names_of(data: Any) -> tuple[str, ...]:
    names: list[str] = []
    while isinstance(data, dict | list) and data:
        if isinstance(data, list):
            data = data[0]
            continue
        name, data = next(iter(data.items()))
        names.append(name)
    return tuple(names)


def _concrete(names: tuple[str, ...], counts: dict[_Concrete, int], *, is_list: bool) -> _Concrete:
    """Return the path of a table, with the index of the latest item of each list of tables above it."""
    path: _Concrete = ()
    for at, name in enumerate(names):
        path = (*path, name)
        if is_list and at == len(names) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def _toml_name(path: _Concrete) -> str:
    names = [part for part in path if isinstance(part, str)]
    if len(names) < len(path):
        raise NoPlace(f"{shown(path)} is not there")
    return ".".join(name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name) for name in names)
