"""Removal of private details from texts that are sent over HTTP: content of files, paths, addresses of databases.

A client is told what is wrong with its request.  Where files of this machine are and what is in them is for the
operator alone, and stands in the log.
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
_FILE_ERROR = re.compile(
    r"^(/[^\n]*?): ((?:line \d+)?[^\n]*?)found .*; allowed: ", re.DOTALL
)  # the text of a FileError
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+-]*://[^\s'\"<>]*", re.IGNORECASE)
_USER = re.compile(r"//[^/\s]*@")
_QUOTED = re.compile(r"(['\"`])((?:~|file:)?/[^'\"`\n]*)\1")
_PATH = re.compile(r"(?<![\w.:/~)\]}])(?:~|file:/*)?/[^\s'\"`,;:()\[\]{}<>|=]+")


def detail_of(error: TailorError) -> str:
    """Return the text of an error that may be sent over HTTP; where it is shortened, the log has the whole."""
    if isinstance(error, FileError):
        detail = _unusable(error.file, error.key)
    elif isinstance(error, StoreBusy):
        detail = f"the store does not answer; {MORE}"
    elif isinstance(error, StoreError) and not isinstance(error, NotFound | IllegalTransition):
        detail = f"the store cannot be used; {MORE}"
    else:
        return scrubbed(str(error))
    LOG.warning("an answer says less than this", extra={"error": f"{type(error).__name__}: {error}"})
    return detail


def scrubbed(text: str) -> str:
    """Return the text with absolute paths cut to their last component, and without addresses other than http(s)."""
    file_error = _FILE_ERROR.match(text)
    if file_error:
        return _unusable(file_error[1], file_error[2])
    text = _ADDRESS.sub(lambda match: _address(match[0]), text)
    text = _QUOTED.sub(lambda match: f"{match[1]}{_last(match[2])}{match[1]}", text)
    return _PATH.sub(lambda match: _last(match[0]), text)


def scrubbed_values(value: object) -> object:
    """Return a JSON value with every text in it scrubbed."""
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, dict):
        return {name: scrubbed_values(member) for name, member in value.items()}
    if isinstance(value, Sequence):
        return [scrubbed_values(element) for element in value]
    return value


def _unusable(file: str, key: str) -> str:
    line = _LINE.match(key)
    return f"{_last(file)}, {f'line {line[1]}, ' if line else ''}cannot be used; {MORE}"


def _last(path: str) -> str:
    """Return the last component of a path; punctuation that ends a sentence is no part of the path."""
    bare = path.rstrip(".!?/")
    return (PurePath(bare).name or "/") + path[len(bare) :].strip("/")


def _address(text: str) -> str:
    scheme, _, rest = text.partition("://")
    if scheme.lower() in ("http", "https"):
        return _USER.sub("//", text)
    if scheme.lower() in ("file", "unix"):
        return _last(rest)
    return f"(an address of {scheme})"
