"""Values at key paths of configuration files, by the format of the file."""

from __future__ import annotations

import posixpath
from typing import Literal, get_args

from framework.config import line_keys, node_keys
from framework.config.key_paths import parts_of

FileFormat = Literal["yaml", "json", "toml", "ini", "properties"]
FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)
_EXTENSIONS: dict[str, FileFormat] = {
    ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml", ".ini": "ini", ".cnf": "ini", ".cfg": "ini",
    ".properties": "properties",
}  # fmt: skip


def format_of(path: str) -> FileFormat | None:
    """Return the format that a file's extension names; None for one that names none, such as ``.conf``."""
    return _EXTENSIONS.get(posixpath.splitext(path)[1].lower())


def values_at(text: str, file_format: str, key: str) -> tuple[str, ...]:
    """Return the texts of the values at a key path: one, several where it selects items, none where it has none.

    Raises NoPlace where the file cannot be read, or the path cannot lead anywhere in it.
    """
    parts = parts_of(key)
    match file_format:
        case "toml":
            return line_keys.toml_values(text, parts)
        case "ini":
            return line_keys.ini_values(text, parts)
        case "properties":
            return line_keys.property_values(text, parts)
        case _:
            return node_keys.values_at(text, parts, is_json=file_format == "json")


def with_value(text: str, file_format: str, key: str, value: str, *, string: bool) -> str:
    """Return a file's text with ``value`` at a key path; a key that is missing is added, a list's item is not.

    ``string``: it is text, never a number or a boolean, where the format tells them apart.  Raises NoPlace.
    """
    parts = parts_of(key)
    match file_format:
        case "toml":
            return line_keys.toml_with(text, parts, value, string=string)
        case "ini":
            return line_keys.ini_with(text, parts, value)
        case "properties":
            return line_keys.property_with(text, parts, value)
        case _:
            return node_keys.with_value(text, parts, value, string=string, is_json=file_format == "json")
