"""The schema of a list of known bottlenecks, version 1: the services that a user says are worth tuning."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from framework.config.checked import Strict, load
from optimizer.space import SearchSpace


class BottlenecksFile(Strict):
    """Services in any order; only these are tuned."""

    kind: Literal["bottlenecks"]
    version: Literal[1]
    description: str = ""
    services: list[str] = Field(min_length=1, description="names of services with something to tune")


def load_bottlenecks(path: Path, space: SearchSpace) -> tuple[str, ...]:
    """Read the services of a file.  Raises FileError on a service that has no parameter in ``space``."""
    document, file = load(Path(path), BottlenecksFile)
    for index, service in enumerate(file.services):
        if service not in space.groups:
            raise document.error(("services", index), service, f"services that are tuned: {', '.join(space.groups)}")
    return tuple(dict.fromkeys(file.services))
