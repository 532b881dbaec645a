"""YAML text -> plain data, strictly, with the line of every key: the only module that touches the YAML library.

The text is read by the core schema of YAML 1.2 and nothing more: ``yes``, ``on``, ``1:30``, ``2024-01-01``, ``1_000``
and ``0777`` stay strings.  Keys are text as written.  A key given twice, a tag, a
second document and a reference that contains itself are errors that name the line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from framework.config.reading import read_text
from framework.errors import FileError

KeyPath = tuple[str | int, ...]

_LARGEST = 200_000  # nodes; aliases of aliases can blow a few lines up to billions

# YAML 1.2.2, section 10.3.2 (core schema), without leading zeros: 0777 means 511 to some readers and 777 to others.
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_REAL = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# What other readers take for something else than text: 0777, 0b11, 1_000, 2024-01-01.
_DISPUTED = re.compile(
    r"[-+]?(0[0-9_]+|0b[01_]+|0[xo][0-9a-fA-F]*_[0-9a-fA-F_]*|[0-9][0-9_]*_[0-9_.]*)|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*"
)
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

# Tags that the library gives to plain scalars.  They are ignored; any other tag was written by hand.
_IMPLICIT = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")
)


@dataclass(frozen=True, slots=True)
class Document:
    """One file as plain dictionaries, lists, strings, numbers, booleans and None.

    ``lines``: key path -> line.  ``tagged``: key path -> tag, of values with a tag that the caller allowed, read as if
    they had none.  ``disputed``: key paths of plain text that other readers take for a number or a date.
    """

    path: Path
    data: Any
    lines: Mapping[KeyPath, int]
    tagged: Mapping[KeyPath, str] = field(default_factory=dict)
    disputed: tuple[KeyPath, ...] = ()

    def error(self, key: KeyPath, found: object, allowed: str) -> FileError:
        """Make a FileError at ``key``, with the line of ``key`` or of the nearest key above it that the file has."""
        at = key
        while at and at not in self.lines:
            at = at[:-1]
        name = key_text(key)
        if at in self.lines:
            name = f"line {self.lines[at]}: {name}" if name else f"line {self.lines[at]}"
        return FileError(self.path, name, found, allowed)


def key_text(key: KeyPath) -> str:
    """Write a key path as text, such as ``services.nginx.volumes[0]``."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_document(path: Path, tags: Collection[str] = ()) -> Document:
    """Read a file of one YAML 1.2 document, with no tags but ``tags``.  Raises FileError on anything else."""
    text = read_text(path)
    # A directive changes what the text means (%YAML 1.1 turns yes into true); the first line of content ends them.
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("%"):
            raise FileError(path, f"line {number}", line.strip(), "no directives")
        if line.strip() and not line.startswith("#"):
            break
    try:
        return _built(path, text, tags)
    except RecursionError:
        raise FileError(path, "", "values nested hundreds deep", "a flatter file") from None


def _built(path: Path, text: str, tags: Collection[str]) -> Document:
    try:
        library = YAML(typ="safe", pure=True)
        library.composer.warn_double_anchors = False  # YAML allows an anchor twice; the last one before an alias counts
        node = library.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}" if mark is not None else ""
        raise FileError(path, where, _problem(error), "one YAML 1.2 document") from None
    except YAMLError as error:
        raise FileError(path, "", str(error).splitlines()[0], "one YAML 1.2 document") from None
    if node is None:
        raise FileError(path, "", "nothing", "one YAML document")
    builder = _Builder(path, tags)
    data = builder.build(node, ())
    return Document(path, data, builder.lines, builder.tagged, tuple(builder.disputed))


def _problem(error: MarkedYAMLError) -> str:
    return ", ".join(part for part in (error.context, error.problem) if part) or "malformed text"


class _Builder:
    """Turns the library's nodes into plain data and notes their lines."""

    def __init__(self, path: Path, tags: Collection[str] = ()) -> None:
        self.path = path
        self.lines: dict[KeyPath, int] = {}
        self.tagged: dict[KeyPath, str] = {}
        self.disputed: list[KeyPath] = []
        self._tags = tags
        self._open: set[int] = set()
        self._count = 0

    def build(self, node: Node, key: KeyPath) -> Any:
        self._count += 1
        if self._count > _LARGEST:
            raise self._error(node, key, f"more than {_LARGEST} values", "a smaller file (aliases multiply)")
        self.lines.setdefault(key, node.start_mark.line + 1)
        if isinstance(node, ScalarNode):
            return self._scalar(node, key)
        if id(node) in self._open:
            raise self._error(node, key, "a value that contains itself", "an alias of another value")
        self._open.add(id(node))
        try:
            if isinstance(node, MappingNode):
                self._plain_tag(node, key, "tag:yaml.org,2002:map")
                return self._mapping(node, key)
            if isinstance(node, SequenceNode):
                self._plain_tag(node, key, "tag:yaml.org,2002:seq")
                return [self.build(item, (*key, index)) for index, item in enumerate(node.value)]
        finally:
            self._open.remove(id(node))
        raise self._error(node, key, type(node).__name__, "a mapping, a list or a plain value")

    def _mapping(self, node: MappingNode, key: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for name_node, value_node in node.value:
            if not isinstance(name_node, ScalarNode):
                raise self._error(name_node, key, "a list or a mapping as a key", "a plain word as a key")
            name = self._text(name_node, key)
            if name == "<<" and name_node.style is None:
                self._merge(merged, value_node, key)
                continue
            if name in data:
                first = self.lines[(*key, name)]
                raise self._error(
                    name_node, (*key, name), f"the key {name!r} twice (first on line {first})", "each key once"
                )
            self.lines[(*key, name)] = name_node.start_mark.line + 1
            data[name] = self.build(value_node, (*key, name))
        return {**merged, **data}

    def _merge(self, merged: dict[str, Any], node: Node, key: KeyPath) -> None:
        """Merge ``<<: *anchor``, or a list of anchors, as compose files use it; the first one named wins."""
        sources = node.value if isinstance(node, SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, MappingNode):
                raise self._error(node, key, "'<<' with something else", "'<<' with an alias of a mapping")
            inner = _Builder(self.path, self._tags)
            inner._open, inner._count = self._open, self._count
            for name, value in inner.build(source, key).items():
                merged.setdefault(name, value)
            self._count = inner._count
            self.tagged |= inner.tagged
            self.disputed += inner.disputed
            for place, line in inner.lines.items():
                self.lines.setdefault(place, line)

    def _scalar(self, node: ScalarNode, key: KeyPath) -> Any:
        text = self._text(node, key)
        tag = str(node.tag)
        if node.style is not None:
            self._plain_tag(node, key, "tag:yaml.org,2002:str")
            return text
        if tag in self._tags:
            self.tagged[key] = tag
        elif tag not in _IMPLICIT:
            raise self._error(node, key, _written_tag(tag), "no tags")
        elif _DISPUTED.fullmatch(text):
            self.disputed.append(key)
        try:
            return _plain_value(text)
        except ValueError:  # Python reads no integer of more than some thousand digits
            raise self._error(node, key, f"a number of {len(text)} digits", "a smaller number") from None

    def _text(self, node: ScalarNode, key: KeyPath) -> str:
        text = str(node.value)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self._error(node, key, "half a character (a lone surrogate)", "Unicode text") from None
        return text

    def _plain_tag(self, node: Node, key: KeyPath, expected: str) -> None:
        if str(node.tag) in self._tags:
            self.tagged[key] = str(node.tag)
        elif str(node.tag) != expected:
            raise self._error(node, key, _written_tag(str(node.tag)), "no tags")

    def _error(self, node: Node, key: KeyPath, found: str, allowed: str) -> FileError:
        name = f"line {node.start_mark.line + 1}"
        return FileError(self.path, f"{name}: {key_text(key)}" if key else name, found, allowed)


def _written_tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")


def _plain_value(text: str) -> str | int | float | bool | None:
    if _NULL.fullmatch(text):
        return None
    if _BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 16)
    if _INFINITE.fullmatch(text):
        return float(text.replace(".", ""))
    if _REAL.fullmatch(text):
        return float(text)
    return text
