"""Ids of studies as a type: an id is neither a file nor any other text.

A text that is no id is refused when a StudyId is made, so that later code never has to check whether it is a path.
"""

from __future__ import annotations

import re

from framework.errors import InputError

ALLOWED_ID = "at most 64 letters, digits and hyphens"
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")


class StudyId(str):
    """A study's id, or an unambiguous beginning of one.  Raises InputError for any other text."""

    __slots__ = ()

    def __new__(cls, text: str) -> StudyId:
        if not is_study_id(text):
            raise InputError(f"a study's id: found {text!r}; allowed: {ALLOWED_ID}")
        return super().__new__(cls, text)


def is_study_id(text: str) -> bool:
    """Return whether a text has the form of a study's id."""
    return _ID.fullmatch(text) is not None


def is_plain_name(text: str) -> bool:
    """Return whether a text can be shown and be one part of a path: printable, without slashes, not "." or ".."."""
    return 0 < len(text) <= 128 and text.isprintable() and not set(text) & set("/\\") and text.strip(". ") != ""
