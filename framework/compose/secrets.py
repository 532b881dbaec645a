"""Removal of passwords and the like from records: compose documents, mounted files, exports.

Secrets are known by the usual names of such values, and by the place of a password in an address.  The deployment
that runs keeps its values; Tailor's records do not need them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

REMOVED = "REMOVED"
_NAME = re.compile(
    r"passwo?r?d|passphrase|_pass$|^pass$|secret|(^|[_-])token$|credential|api_?key|access_?key|private_?key|"
    r"authorization|cookie|requirepass|masterauth",
    re.IGNORECASE,
)
_PAIR = re.compile(r"([\w.-]+)=(.*)", re.DOTALL)  # in a list of environment variables, or an option of a command
_ADDRESS = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)")
_LINE = re.compile(r"^([ \t]*[\"']?([\w.-]+)[\"']?[ \t]*[:= ][ \t]*)(\S.*)$", re.MULTILINE)
_REFERENCE = re.compile(r"\$\{?\w+\}?")  # the value stays where it is


def without_secrets(value: Any, name: str = "") -> Any:
    """Replace every value of a document that looks like a secret by REMOVED; ``name``: the key of ``value``."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_secrets(item, name) for item in value]
    if isinstance(value, str):
        return _text(value, name)
    if name and value is not None and not isinstance(value, bool) and _NAME.search(name):
        return REMOVED  # a number
    return value


def documents_artefact(documents: Mapping[str, Any], files: Mapping[str, str]) -> bytes:
    """Write the record of a deployment, its compose documents and mounted files, as JSON without secrets."""
    cleaned = {name: text_without_secrets(text) for name, text in files.items()}
    return json.dumps({"documents": without_secrets(documents), "files": cleaned}, sort_keys=True).encode()


def text_without_secrets(text: str) -> str:
    """Remove secrets from a file, line by line: ``name value``, ``name = value`` or ``name: value``."""

    def line(match: re.Match[str]) -> str:
        return match[1] + _text(match[3], match[2])

    return _LINE.sub(line, text)


def _text(value: str, name: str) -> str:
    if name and _NAME.search(name) and not _REFERENCE.fullmatch(value):
        return REMOVED
    pair = _PAIR.fullmatch(value)
    if pair is not None:
        return f"{pair[1]}={_text(pair[2], pair[1])}"
    return _ADDRESS.sub(rf"\1:{REMOVED}", value)
