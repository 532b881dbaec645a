"""Values at key paths of YAML and JSON files, replaced in the text itself: comments, order and quotes stay.

The YAML library says where a value begins and ends; JSON is read by it too, since it is YAML in flow style.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from framework.config.key_paths import NoPlace, Part, Where, shown
from framework.config.writing import is_ambiguous

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_NULL = "tag:yaml.org,2002:null"


@dataclass(frozen=True, slots=True)
class _Value:
    """A value that the file has.  ``merged``: it comes from another mapping, by ``<<``."""

    node: Node
    merged: bool = False


@dataclass(frozen=True, slots=True)
class _Missing:
    """A value that the file lacks: the mapping that would have it (or an empty value), and the path below it.

    The path has names, and 0 for the only item of a new list.
    """

    node: Node
    names: _Names


_Place = _Value | _Missing
_Names = tuple[str | int, ...]


def values_at(text: str, parts: Sequence[Part], *, is_json: bool) -> tuple[str, ...]:
    """Return the texts of the scalars at a key path; none where the file has none.  Raises NoPlace."""
    texts = []
    for root in _documents(text, is_json=is_json):
        for place in _places(root, tuple(parts)):
            if isinstance(place, _Value) and isinstance(place.node, ScalarNode) and not _is_empty(place.node):
                texts.append(str(place.node.value))
    return tuple(texts)


def with_value(text: str, parts: Sequence[Part], value: str, *, string: bool, is_json: bool) -> str:
    """Return ``text`` with ``value`` at a key path; ``string``: it is text, never a number or a boolean.

    Raises NoPlace where the path leads nowhere, or to something that others share.
    """
    path = tuple(parts)
    roots = _documents(text, is_json=is_json)
    if not roots:
        names = _new_names(path)
        if is_json:
            return f"{_flow(names, _scalar(value, '', string=string, is_json=True))}\n"
        head = f"{text.rstrip()}\n" if text.strip() else ""
        return f"{head}{_block(names, _scalar(value, '', string=string, is_json=False), 0)}\n"
    shared = _shared(roots)
    places = [_places(root, path, shared) for root in roots]
    known = [place for listed in places for place in listed if isinstance(place, _Value) and not place.merged]
    missing = [place for listed in places for place in listed if isinstance(place, _Missing)]
    changes = [_replacement(text, place.node, value, string=string, is_json=is_json, path=path) for place in known]
    # In a file of several documents, those that say nothing of the value stay as they are.
    wanted = missing if len(roots) == 1 else [] if known else missing[:1]
    changes += [_insertion(text, place, value, string=string, is_json=is_json) for place in wanted]
    if not changes:
        raise NoPlace(f"it has nothing at {shown(path)}")
    for start, end, new in sorted(set(changes), reverse=True):
        text = text[:start] + new + text[end:]
    return text


# --------------------------------------------------------------------------- reading


def _documents(text: str, *, is_json: bool) -> list[Node]:
    """Return the root of every document of a file.  Raises NoPlace where it cannot be read."""
    library = YAML(typ="safe", pure=True)
    library.composer.warn_double_anchors = False
    try:
        return [node for node in library.compose_all(_readable(text) if is_json else text) if node is not None]
    except (YAMLError, RecursionError, ValueError) as error:
        problem = str(getattr(error, "problem", "") or error).splitlines()[0]
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise NoPlace(f"it cannot be read as {'JSON' if is_json else 'YAML'}: {problem}{where}") from None


def _readable(text: str) -> str:
    """Return JSON as a YAML reader takes it, with every character in its place: no tabs, no comments."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])

    return _COMMENT.sub(blank, text).replace("\t", " ")


def _places(node: Node, path: tuple[Part, ...], shared: frozenset[int] = frozenset()) -> list[_Place]:
    """Return where a path leads below a node.  ``shared``: nodes that may not be changed.  Raises NoPlace."""
    if id(node) in shared:
        raise NoPlace(f"the value above {shown(path)} stands in several places (an alias)" if path else "an alias")
    if not path:
        return [_Value(node)]
    part = path[0]
    if isinstance(part, str):
        return _named(node, path, shared)
    if not isinstance(node, SequenceNode):
        raise NoPlace(f"there is no list for {shown(path)}")
    if isinstance(part, int):
        if part >= len(node.value):
            raise NoPlace(f"a list has {len(node.value)} items, and no {shown((part,))}")
        return _places(node.value[part], path[1:], shared)
    chosen = [item for item in node.value if _is_selected(item, part)]
    if not chosen:
        raise NoPlace(f"no item of a list is {part}")
    return [place for item in chosen for place in _places(item, path[1:], shared)]


def _named(node: Node, path: tuple[Part, ...], shared: frozenset[int]) -> list[_Place]:
    """Return where a path leads whose first part is a name; a name may also be several parts, joined by dots."""
    names: list[str] = []
    for part in path:
        if not isinstance(part, str):
            break
        names.append(part)
    if isinstance(node, ScalarNode) and _is_empty(node):
        return [_Missing(node, _new_names(path))]
    if not isinstance(node, MappingNode):
        raise NoPlace(f"the value above {shown(path)} is no mapping")
    fallback: list[_Place] | None = None
    problem: NoPlace | None = None
    for count in range(1, len(names) + 1):
        child, merged = _child(node, ".".join(names[:count]))
        if child is None:
            continue
        rest = path[count:]
        if merged:
            inner: list[_Place] = [_Value(place.node, merged=True) for place in _places(child, rest)
                                   if isinstance(place, _Value)]  # fmt: skip
            if rest and shared:
                raise NoPlace(f"the value at {shown(path[:count])} comes from another one, by <<")
            return [*inner, _Missing(node, tuple(names))] if not rest else inner
        try:
            places = _places(child, rest, shared)
        except NoPlace as error:
            problem = problem or error
            continue
        if all(isinstance(place, _Value) for place in places):
            return places
        fallback = fallback or places
    if fallback is not None:
        return fallback
    if problem is not None:
        raise problem
    return [_Missing(node, _new_names(path))]


def _new_names(path: tuple[Part, ...]) -> _Names:
    """Return a path to a value that is missing, which can be made.  Raises NoPlace where it selects items."""
    names = tuple(part for part in path if isinstance(part, str) or part == 0)
    if len(names) < len(path) or not isinstance(names[0], str):
        raise NoPlace(f"there is no list for {shown(path)}")
    return names


def _child(node: MappingNode, name: str) -> tuple[Node | None, bool]:
    """Return the value of a name (the last one that is given), and whether it comes from another mapping."""
    value: Node | None = None
    for key, child in node.value:
        if isinstance(key, ScalarNode) and key.value == name:
            value = child
    if value is not None:
        return value, False
    for source in _merged_into(node):
        inner, _ = _child(source, name)
        if inner is not None:
            return inner, True
    return None, False


def _merged_into(node: MappingNode) -> Iterator[MappingNode]:
    for key, child in node.value:
        if isinstance(key, ScalarNode) and key.value == "<<" and key.style is None:
            sources = child.value if isinstance(child, SequenceNode) else [child]
            yield from (source for source in sources if isinstance(source, MappingNode))


def _is_selected(item: Node, where: Where) -> bool:
    if not where.key:
        return True
    value = _child(item, where.key)[0] if isinstance(item, MappingNode) else None
    return isinstance(value, ScalarNode) and value.value == where.value


def _is_empty(node: ScalarNode) -> bool:
    return node.style is None and node.value == ""


def _shared(roots: Sequence[Node]) -> frozenset[int]:
    """Return the nodes that stand in several places, by aliases; never empty, so that it says that it was looked at."""
    seen: set[int] = set()
    twice: set[int] = {0}
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            twice.add(id(node))
            continue
        seen.add(id(node))
        if isinstance(node, MappingNode):
            for key, child in node.value:
                if not (isinstance(key, ScalarNode) and key.value == "<<"):
                    waiting.append(child)
        elif isinstance(node, SequenceNode):
            waiting += node.value
    return frozenset(twice)


# --------------------------------------------------------------------------- writing

_Change = tuple[int, int, str]  # start and end in the text, and what stands there afterwards


def _replacement(text: str, node: Node, value: str, *, string: bool, is_json: bool, path: tuple[Part, ...]) -> _Change:
    if not isinstance(node, ScalarNode):
        raise NoPlace(f"{shown(path)} is a {'mapping' if isinstance(node, MappingNode) else 'list'}, not a value")
    if node.style in ("|", ">"):
        raise NoPlace(f"{shown(path)} is text of several lines")
    start, end = node.start_mark.index, node.end_mark.index
    if _is_empty(node):
        return _after_colon(text, node, " " + _scalar(value, "", string=string, is_json=is_json))
    return start, end, _scalar(value, node.style or "", string=string, is_json=is_json)


def _after_colon(text: str, node: Node, new: str) -> _Change:
    """Put text behind the colon before an empty value."""
    colon = text.rfind(":", 0, node.start_mark.index + 1)
    if colon < 0 or text[colon + 1 : node.start_mark.index].strip():
        raise NoPlace("an empty value stands in an unusual place")
    return colon + 1, colon + 1, new


def _insertion(text: str, place: _Missing, value: str, *, string: bool, is_json: bool) -> _Change:
    """Put new names before the first one of the mapping that they belong to."""
    node, names = place.node, place.names
    scalar = _scalar(value, "", string=string, is_json=is_json)
    if isinstance(node, ScalarNode):  # "server:" with nothing behind it
        indent = _indent_of_line(text, node) + 2
        return _after_colon(text, node, f"\n{' ' * indent}{_block(names, scalar, indent)}")
    start = node.start_mark.index
    if is_json or (isinstance(node, MappingNode) and node.flow_style):
        inner = _flow(names, scalar, is_json=is_json)[1:-1]
        if not node.value:
            return start + 1, start + 1, inner
        first = node.value[0][0].start_mark
        apart = first.line > node.start_mark.line
        return first.index, first.index, inner + (",\n" + " " * first.column if apart else ", ")
    first = node.value[0][0].start_mark
    return first.index, first.index, f"{_block(names, scalar, first.column)}\n{' ' * first.column}"


def _indent_of_line(text: str, node: Node) -> int:
    """Return the column of the name before an empty value."""
    colon = text.rfind(":", 0, node.start_mark.index + 1)
    line = text[text.rfind("\n", 0, colon) + 1 : colon]
    return len(line) - len(line.lstrip(" -"))


def _block(names: _Names, scalar: str, indent: int) -> str:
    """Write nested names in block style, a list in flow style; the first line has no indentation yet."""
    if 0 in names:
        at = names.index(0)
        names, scalar = names[:at], _flow(names[at:], scalar, is_json=False)
    lines = [f"{' ' * (indent + 2 * depth)}{_yaml_key(str(name))}:" for depth, name in enumerate(names)]
    return "\n".join(lines).lstrip(" ") + f" {scalar}"


def _flow(names: _Names, scalar: str, *, is_json: bool = True) -> str:
    text = scalar
    for name in reversed(names):
        if isinstance(name, int):
            text = f"[{text}]"
            continue
        text = f"{{{json.dumps(name) if is_json else _yaml_key(name)}: {text}}}"
    return text


def _yaml_key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) and not is_ambiguous(name) else json.dumps(name)


def _scalar(value: str, style: str, *, string: bool, is_json: bool) -> str:
    """Write a value in the quotes that the file has there, else as it needs to be."""
    if is_json:
        return value if not style and not string and _is_json_literal(value) else json.dumps(value, ensure_ascii=False)
    if style == '"':
        return json.dumps(value, ensure_ascii=False)
    if style == "'":
        return "'" + value.replace("'", "''") + "'"
    if not string:
        return value
    plain = re.fullmatch(r"[A-Za-z0-9_./+%-][A-Za-z0-9_./+%: -]*", value) and ": " not in value
    if plain and value == value.strip() and not value.endswith(":") and not is_ambiguous(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_json_literal(text: str) -> bool:
    try:
        return not isinstance(json.loads(text), str | list | dict)
    except ValueError:
        return False
