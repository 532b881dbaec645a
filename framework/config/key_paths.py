"""Key paths: places of values in configuration files, such as ``server.http.threads`` or ``clusters[name=api].limit``.

Names are separated by dots; a name with other characters stands in double quotes.  Behind a name, ``[3]`` selects one
item of a list, ``[*]`` every item, and ``[name=api]`` the items whose key ``name`` is ``api``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GRAMMAR = "names separated by dots, such as server.http.threads, with [3], [*] or [name=api] for items of lists"
_NAME = re.compile(r'"(?P<quoted>[^"]+)"|(?P<bare>[^.\[\]"]+)')
_ITEM = re.compile(r"\[(?:(?P<index>\d+)|(?P<every>\*)|(?P<key>[^=\[\]]+)=(?P<value>[^\]]*))\]")


@dataclass(frozen=True, slots=True)
class Where:
    """Selects items of a list: those whose ``key`` has the text ``value``; an empty key selects every item."""

    key: str = ""
    value: str = ""

    def __str__(self) -> str:
        return f"[{self.key}={self.value}]" if self.key else "[*]"


Part = str | int | Where
"""A name in a mapping, an index of a list (from 0), or a selection of items."""


class NoPlace(Exception):
    """A file has no place for a value; the message says why, as the end of a sentence."""


def parts_of(text: str) -> tuple[Part, ...]:
    """Parse a key path.  Raises ValueError for text that is none."""
    parts: list[Part] = []
    at = 0
    while at < len(text):
        item = _ITEM.match(text, at)
        if item is not None:
            at = item.end()
            index = item["index"]
            parts.append(int(index) if index is not None else Where(item["key"] or "", item["value"] or ""))
            continue
        if parts:
            if text[at] != ".":
                raise ValueError(GRAMMAR)
            at += 1
        name = _NAME.match(text, at)
        if name is None:
            raise ValueError(GRAMMAR)
        at = name.end()
        parts.append(name["quoted"] or name["bare"])
    if not parts or isinstance(parts[-1], Where):
        raise ValueError(GRAMMAR)
    return tuple(parts)


def shown(parts: tuple[Part, ...]) -> str:
    """Write a key path as text."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif isinstance(part, Where):
            text += str(part)
        else:
            name = part if _NAME.fullmatch(part) and '"' not in part else f'"{part}"'
            text += f".{name}" if text else name
    return text
