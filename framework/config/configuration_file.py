"""The schema of a file of ``configurations/``, version 1, and its reading against a search space."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import Field

from framework.config.checked import Strict, Value, load
from optimizer.errors import InvalidValue
from optimizer.space import Configuration, SearchSpace


class ConfigurationFile(Strict):
    """One configuration: what it does not name keeps its default."""

    kind: Literal["configuration"]
    version: Literal[1]
    description: str = ""
    application: str = Field("", description="the application that it was written for")
    values: dict[str, Value] = Field(description="service.parameter -> value")
    sources: dict[str, str] = Field(default_factory=dict, description="service.parameter -> where the value comes from")


def load_configuration(path: Path, space: SearchSpace) -> Configuration:
    """Read the configuration of a file; parameters that it does not name get the defaults of ``space``.

    A value that follows from others may be left out.  Raises FileError on a name that ``space`` does not have (with the
    nearest names), on a value outside its range, and on one that does not follow.
    """
    document, file = load(Path(path), ConfigurationFile)
    for name in file.values:
        if name not in space.default():
            raise document.error(("values", name), name, nearest(name, space))
    for name in file.sources:
        if name not in file.values:
            raise document.error(("sources", name), name, f"names of values: {', '.join(file.values) or 'none'}")
    try:
        return space.from_default(file.values)
    except InvalidValue as error:
        raise document.error(("values", error.parameter), error.found, error.allowed) from None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known names nearest to an unknown one, in the words of an error."""
    names = list(known)
    matches = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    if matches:
        return f"the parameters that are tuned; nearest: {', '.join(matches)}"
    return f"the parameters that are tuned: {', '.join(names)}"
