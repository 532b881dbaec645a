"""The schema of a file of known results, version 1: configurations measured elsewhere, and their default."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from framework.config.checked import Strict, Value, load
from optimizer.transfer import Known

Positive = Annotated[float, Field(gt=0)]


class ResultEntry(Strict):
    """One configuration: what it does not name stood at its default."""

    values: dict[str, Value] = Field(min_length=1, description="service.parameter -> value")
    value: Positive = Field(description="of the objective, measured beside the default")
    standard_error: Annotated[float, Field(ge=0)] = Field(0.0, description="of value, in its unit")


class ResultsFile(Strict):
    """Results of one machine and one day, so that they can be compared with its default."""

    kind: Literal["results"]
    version: Literal[1]
    description: str = ""
    default: Positive = Field(description="the default configuration's objective")
    default_values: dict[str, Value] = Field(
        default_factory=dict, description="defaults of parameters that an application may not have"
    )
    results: list[ResultEntry] = Field(min_length=1)


def load_results(path: Path) -> tuple[Mapping[str, Value], list[Known]]:
    """Read the defaults that a file names, and its results as log ratios to the default's value.  Raises FileError."""
    _, file = load(path, ResultsFile)
    known = [
        Known(dict(entry.values), math.log(entry.value / file.default), entry.standard_error / entry.value)
        for entry in file.results
    ]
    return dict(file.default_values), known
