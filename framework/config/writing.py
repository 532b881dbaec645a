"""Plain data -> YAML text that has one meaning in YAML 1.1 and 1.2."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter

from framework.errors import InputError

# Text that a YAML 1.1 reader (docker-compose 1.29 is one) takes for something else: booleans, nulls, numbers with
# underscores, sexagesimal numbers such as 8080:80, dates.
_AMBIGUOUS = re.compile(
    r"y|n|yes|no|on|off|true|false|null|~|[-+.]?[\d_][\d_:.,exobaA-F+-]*|[-+]?\.(inf|nan)|=|<<", re.IGNORECASE
)


class _Representer(RoundTripRepresenter):
    """A representer that quotes text which some reader takes for something else."""


def _text(representer: RoundTripRepresenter, value: str) -> ScalarNode:
    style = '"' if is_ambiguous(value) else "|" if "\n" in value else None
    return representer.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Representer.add_representer(str, _text)


def is_ambiguous(text: str) -> bool:
    """Return whether text has to stand in quotes, since some reader of YAML takes it for something else."""
    return _AMBIGUOUS.fullmatch(text) is not None


def to_yaml(document: Mapping[str, Any]) -> str:
    """Write dictionaries, lists, strings, numbers, booleans and None as YAML text, in their own order."""
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.width = 4096  # a folded line is hard to read in a diff
    yaml.indent(mapping=2, sequence=4, offset=2)
    buffer = io.StringIO()
    yaml.dump(_plain(document), buffer)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    """Copy a value with tuples as lists and mappings as dictionaries."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def write_text(path: Path, text: str) -> Path:
    """Write a file and the directories above it; return its path.  Raises InputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def write_rows(path: Path, content: Mapping[str, Any], rows: str) -> Path:
    """Write JSON with a line for each key, and one for each element of the list at ``rows``.

    The file is whole at any time.  Raises InputError where it cannot be written.
    """
    kept = {key: value for key, value in content.items() if key != rows}
    head = ",\n ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in kept.items())
    lines = ",\n  ".join(json.dumps(row) for row in content[rows])
    text = "{\n " + head + f',\n "{rows}": [' + (f"\n  {lines}\n ]" if lines else "]") + "\n}\n"
    return write_text(path.with_name(path.name + ".new"), text).replace(path)
