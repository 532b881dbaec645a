"""The examination of this machine: what it can do for applications, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framework.bench import AUTO, Backends, TestbedKind
from framework.errors import MissingPrerequisite
from framework.model import Application, Finding


def examine(backends: Backends, applications: Sequence[Path], testbed: str = AUTO) -> Sequence[Finding]:
    """Examine this machine and every other testbed that these applications can use; or one testbed alone.

    Raises InputError, UnknownName, MissingPrerequisite for a testbed that has nothing to examine.
    """
    loaded = [backends.application(path) for path in applications]
    if testbed != AUTO:
        return _examine_one(backends.kind(testbed), loaded)
    findings = list(backends.manager(backends.types_on(backends.machine())).examine(loaded))
    for application in loaded:
        for kind in backends.others():
            if kind.available(application):
                findings += kind.open(application, {}).testbed.examine([application])
    return findings


def _examine_one(kind: TestbedKind, applications: Sequence[Application]) -> Sequence[Finding]:
    if kind.manage is not None:
        return kind.manage({}).examine(applications)
    if not applications:
        raise MissingPrerequisite(
            f"testbed {kind.name} has no machine to examine without an application",
            f"tailor doctor APP --testbed {kind.name}",
        )
    return [
        finding for application in applications for finding in kind.open(application, {}).testbed.examine([application])
    ]
