"""Every built-in optimizer passes the kit that is shipped to authors of plug-ins."""

from __future__ import annotations

import pytest

from optimizer.registry import load, names
from optimizer.testing import Check, conformance

CHECKS = [check for name in names() for check in conformance(load(name))]


def test_the_built_in_optimizers_are_found_through_the_entry_points() -> None:
    assert {"random", "dds", "dds-grow", "bo-gp"} <= set(names())


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_conforms(check: Check) -> None:
    check()
