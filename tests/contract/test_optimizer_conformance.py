"""Every built-in optimizer passes the kit that is shipped to authors of plug-ins."""

from __future__ import annotations

import pytest

from optimizer.errors import LibraryMissing
from optimizer.registry import load, names
from optimizer.testing import Check, conformance
from optimizer.testing.problems import tiny_space

OPTIONAL = {"optuna-gp", "ax"}  # torch takes 4 GB: checked where somebody has installed it
CHECKS = [check for name in names() for check in conformance(load(name))]


def test_the_built_in_optimizers_are_found_through_the_entry_points() -> None:
    assert {"tailor", "random", "lhs", "dds", "dds-grow", "ga", "pso", "sa", "tpe", "bo-gp", "bo-gbrt", "bo-rf"} <= set(
        names()
    )
    assert {"serial", "morris", "cma-es", "skopt-gp", "smac", "optuna-tpe", "optuna-gp", "optuna-cmaes"} <= set(names())
    assert "ax" in names()


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_conforms(check: Check) -> None:
    kind = check.maker.optimizer_class
    if kind.name in OPTIONAL:
        try:
            check.maker(tiny_space())
        except LibraryMissing as missing:
            pytest.skip(str(missing))
    check()
