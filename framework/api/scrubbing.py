"""Texts that leave over HTTP: without content of files, without paths, without addresses of databases.

Whoever asks over HTTP is told what is wrong with what they sent; where things lie on this machine and what is in its
files is the operator's business, and stands in the log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import PurePath

from framework.errors import FileError, IllegalTransition, NotFound, StoreBusy, StoreError, TailorError

LOG = logging.getLogger("tailor.api")
MORE = "the server's log says more"

_LINE = re.compile(r"line (\d+)")
_OF_A_FILE = re.compile(
    r"^(/[^\n]*?): ((?:line \d+)?[^\n]*?)found .*; allowed: ", re.DOTALL
)  # a FileError that was kept
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+-]*://[^\s'\"<>]*", re.IGNORECASE)
_USER = re.compile(r"//[^/\s]*@")
_QUOTED = re.compile(r"(['\"`])((?:~|file:)?/[^'\"`\n]*)\1")
_PATH = re.compile(r"(?<![\w.:/~)\]}])(?:~|file:/*)?/[^\s'\"`,;:()\[\]{}<>|=]+")


def detail_of(error: TailorError) -> str:
    """What may be said of an error over HTTP; where that is less than it says itself, the log has the rest."""
    if isinstance(error, FileError):
        said = _unusable(error.file, error.key)
    elif isinstance(error, StoreBusy):
        said = f"the store does not answer; {MORE}"
    elif isinstance(error, StoreError) and not isinstance(error, NotFound | IllegalTransition):
        said = f"the store cannot be used; {MORE}"
    else:
        return scrubbed(str(error))
    LOG.warning("an answer says less than this", extra={"error": f"{type(error).__name__}: {error}"})
    return said


def scrubbed(text: str) -> str:
    """The text with the last component of each absolute path, and without addresses of anything but web pages."""
    of_a_file = _OF_A_FILE.match(text)
    if of_a_file:
        return _unusable(of_a_file[1], of_a_file[2])
    text = _ADDRESS.sub(lambda found: _address(found[0]), text)
    text = _QUOTED.sub(lambda found: f"{found[1]}{_last(found[2])}{found[1]}", text)
    return _PATH.sub(lambda found: _last(found[0]), text)


def scrubbed_values(value: object) -> object:
    """A JSON value with every text in it scrubbed."""
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, dict):
        return {name: scrubbed_values(one) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [scrubbed_values(one) for one in value]
    return value


def _unusable(file: str, key: str) -> str:
    line = _LINE.match(key)
    return f"{_last(file)}, {f'line {line[1]}, ' if line else ''}cannot be used; {MORE}"


def _last(path: str) -> str:
    """The last component; punctuation that ends a sentence is not of the path."""
    bare = path.rstrip(".!?/")
    return (PurePath(bare).name or "/") + path[len(bare) :].strip("/")


def _address(text: str) -> str:
    scheme, _, rest = text.partition("://")
    if scheme.lower() in ("http", "https"):
        return _USER.sub("//", text)
    if scheme.lower() in ("file", "unix"):
        return _last(rest)
    return f"(an address of {scheme})"
