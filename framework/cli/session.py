"""Shared by all commands: the two consoles, JSON on standard output, and the use cases with their adapters."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console

from framework.config.settings import Settings

if TYPE_CHECKING:
    from framework.bootstrap.adapters import Opened
    from framework.use_cases.listing import Listed

CLOSED = 141
"""Exit code where the reader of standard output has gone (`tailor ... | head`): that of a program ended by SIGPIPE."""


class Output(Console):
    """A console whose program ends where nobody reads on."""

    def on_broken_pipe(self) -> None:
        nobody_reads()


messages = Console(stderr=True, highlight=False)
output = Output(highlight=False)


def nobody_reads() -> NoReturn:
    """End the program as one whose reader has gone; what it deployed is removed on the way."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # else the interpreter would try to write the rest
    raise SystemExit(CLOSED)


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

    try:
        sys.stdout.write(json.dumps(encode(document), indent=2, allow_nan=False) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        nobody_reads()
