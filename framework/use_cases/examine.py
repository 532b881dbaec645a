"""The examination of this machine: what it can do for applications, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framework.bench import Backends
from framework.model import Finding


def examine(backends: Backends, applications: Sequence[Path]) -> Sequence[Finding]:
    """Examine this machine and every other testbed that these applications can use.  Raises InputError."""
    loaded = [backends.application(path) for path in applications]
    findings = list(backends.manager(backends.types_on(backends.machine())).examine(loaded))
    for application in loaded:
        for kind in backends.kinds[1:]:
            if kind.available(application):
                findings += kind.open(application, {}).testbed.examine([application])
    return findings
