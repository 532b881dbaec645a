"""The command of a service, to which flags are appended and in which those that it has are replaced.

A command is a list of words, or a line for a shell (``sh -c "exec server --port 80"``), whose last command is the
server.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from framework.model import UNKNOWN_COMMAND, ImageFacts

_SHELLS = frozenset({"sh", "bash", "ash", "dash", "/bin/sh", "/bin/bash", "/bin/ash", "/bin/dash", "/usr/bin/bash"})
_LINE_OPTION = re.compile(r"-[a-z]*c")


@dataclass(frozen=True, slots=True)
class Found:
    """A flag that a command has: the text of its value, and the words as they stand there."""

    text: str
    shown: str
    first: int  # of its words
    count: int


@dataclass(frozen=True, slots=True)
class Command:
    """The server's own command.

    ``words``: as the server gets them.  ``line``: its text, where it is the last command of a line for a shell, and
    ``head`` the text before it.  ``before``: the shell with its options.  ``in_entrypoint``: the line stands in the
    entry point.  ``reason``: why flags cannot be appended; empty where they can.
    """

    words: tuple[str, ...]
    line: str = ""
    head: str = ""
    before: tuple[str, ...] = ()
    in_entrypoint: bool = False
    reason: str = ""

    @classmethod
    def of(cls, entry: Mapping[str, Any], image_command: str, image: ImageFacts | None = None) -> Command:
        """Return the command of a service: the compose file's, or the image's.

        ``image_command``: what images of its type run, for an image that is not known here.
        """
        given, entrypoint = words_of(entry.get("command")), words_of(entry.get("entrypoint"))
        if given is None and entrypoint is None and image is None:
            if image_command == UNKNOWN_COMMAND:
                return cls((), reason="what its image runs is not known here; pull the image")
            return cls(tuple(shlex.split(image_command)))
        if image is not None and entrypoint is None:
            entrypoint = [_escaped(word) for word in image.entrypoint]
            given = [_escaped(word) for word in image.command] if given is None else given
        if not given and entrypoint and _runs_a_line(entrypoint):
            return _in_line(entrypoint, 2, in_entrypoint=True)
        if entrypoint and _runs_a_line(entrypoint) and len(entrypoint) == 2:
            return _in_line(given or [], 0)
        if given and _runs_a_line(given):
            return _in_line(given, 2)
        if given and given[0] in _SHELLS and len(given) > 1 and given[1].startswith("-"):
            return cls(tuple(given), reason=f"it is for {given[0]} {given[1]}")
        return cls(tuple(given or ()))

    def find(self, template: str) -> Found | None:
        """Return the flag of a template among the words; the last one, which servers take."""
        wanted = shlex.split(template)
        at = next(index for index, word in enumerate(wanted) if "{value}" in word)
        before, _, after = wanted[at].partition("{value}")
        unit = re.match(r"[A-Za-z%]*", after)
        rest = after.removeprefix(unit[0] if unit else "")
        existing = None
        for index, word in enumerate(self.words):
            first = index - at
            named = [_flag_name(given) for given in self.words[max(0, first) : index]]
            if first < 0 or named != [_flag_name(name) for name in wanted[:at]] or not (before or at):
                continue
            if (
                _flag_name(word[: len(before)]) == _flag_name(before)
                and word.endswith(rest)
                and len(word) > len(before) + len(rest)
            ):
                text = word[len(before) : len(word) - len(rest)]
                existing = Found(text, " ".join(self.words[first : index + 1]), first, at + 1)
        return existing

    def with_flag(self, template: str, text: str) -> Command:
        """Return the command with a flag: in the place of the one that it has, else behind all others."""
        flag = [word.replace("{value}", text) for word in shlex.split(template)]
        existing = self.find(template)
        if existing is None:
            return replace(
                self, words=(*self.words, *flag), line=f"{self.line} {shlex.join(flag)}" if self.line else ""
            )
        words = (*self.words[: existing.first], *flag, *self.words[existing.first + existing.count :])
        old = self.words[existing.first : existing.first + existing.count]
        line = _with_words_replaced(self.line, old, shlex.join(flag), words) if self.line else ""
        if line is None:  # it stands there in a way that is not seen through; the last one counts
            return replace(self, words=(*self.words, *flag), line=f"{self.line} {shlex.join(flag)}")
        return replace(self, words=words, line=line)

    def written(self) -> dict[str, Any]:
        """Return the keys of a compose entry that hold this command."""
        if not self.line:
            return {"command": list(self.words)}
        return {"entrypoint" if self.in_entrypoint else "command": [*self.before, f"{self.head}{self.line}"]}


def _with_words_replaced(line: str, old: Sequence[str], new: str, words: Sequence[str]) -> str | None:
    """Return the line with the last occurrence of some words replaced, the rest of it as it is.

    ``words``: of the line that is wanted.  None where no occurrence gives these.
    """
    either = (f"(?:{re.escape(word)}|'{re.escape(word)}'|\"{re.escape(word)}\")" for word in old)
    pattern = r"\s+".join(either)
    for match in reversed([*re.finditer(rf"(?<!\S){pattern}(?!\S)", line)]):
        changed = f"{line[: match.start()]}{new}{line[match.end() :]}"
        if tuple(shlex.split(changed)) == tuple(words):
            return changed
    return None


def _escaped(text: str) -> str:
    """Double every dollar, as in a compose file."""
    return text.replace("$", "$$")


def _flag_name(word: str) -> str:
    """Return a long flag in one spelling: servers of MySQL's family take ``--a_b`` for ``--a-b``."""
    return word.replace("_", "-") if word.startswith("--") else word


def words_of(command: Any) -> list[str] | None:
    """Return a command or an entry point as words; None where it is not given."""
    if command is None:
        return None
    return shlex.split(command) if isinstance(command, str) else [str(word) for word in command]


def _runs_a_line(words: Sequence[str]) -> bool:
    return len(words) > 1 and words[0] in _SHELLS and _LINE_OPTION.fullmatch(words[1]) is not None


def _in_line(words: Sequence[str], at: int, *, in_entrypoint: bool = False) -> Command:
    """Return the last command of the line ``words[at]``, which is the server."""
    if len(words) != at + 1:
        return Command(tuple(words), reason="it is a line for a shell, with arguments of its own")
    head, line = _last_command(words[at].replace("\\\n", " ").rstrip("; \t\n"))
    if not line:
        return Command((), reason="it is an empty line for a shell")
    try:
        parsed = tuple(shlex.split(line))
    except ValueError:
        return Command((line,), reason="it is a line that a shell would not read")
    reason = (
        "it is a line that pipes its output, or runs in the background" if re.search(r"(?<!>)[|&](?!\d)", line) else ""
    )
    return Command(parsed, line, head, tuple(words[:at]), in_entrypoint, reason)


def _last_command(line: str) -> tuple[str, str]:
    """Split a line behind its last ``&&``, ``||`` or ``;`` outside quotes."""
    quote, at = "", 0
    for index, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in ";\n" or line.startswith(("&&", "||"), index):
            at = index + (2 if character in "&|" else 1)
    rest = line[at:]
    blank = len(rest) - len(rest.lstrip())
    return line[: at + blank], rest.strip()
