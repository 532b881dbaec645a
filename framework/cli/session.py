"""Shared by all commands: the two consoles, JSON on standard output, and the use cases with their adapters."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from framework.config.settings import Settings

if TYPE_CHECKING:
    from framework.bootstrap.adapters import Opened
    from framework.use_cases.listing import Listed

messages = Console(stderr=True, highlight=False)
output = Console(highlight=False)


def opened() -> Opened:
    """Open everything that works on the database of this environment.  Raises InputError, StoreError."""
    from framework.bootstrap.adapters import opened  # here: whoever only lists studies needs none of the adapters

    return opened(Settings.from_environment())


def studies_here() -> Sequence[Listed]:
    """List the studies, from their storage alone."""
    from framework.bootstrap.storage import storage
    from framework.use_cases.listing import listed

    return listed(storage(Settings.from_environment()).studies)


def print_json(document: Any) -> None:
    """Print one JSON document on standard output, whatever the terminal's width."""
    from framework.model.documents import encode

    sys.stdout.write(json.dumps(encode(document), indent=2, allow_nan=False) + "\n")
