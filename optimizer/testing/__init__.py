"""The conformance kit: checks of the optimizer interface that the author of any plug-in can run.

    @pytest.mark.parametrize("check", conformance(MyOptimizer), ids=str)
    def test_my_optimizer_conforms(check: Check) -> None:
        check()

A check raises ConformanceFailure (an AssertionError) with the expected behaviour.  The kit needs no test framework;
the class must be importable by name, because one check runs it in a second process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optimizer.base import Optimizer
from optimizer.space import Value
from optimizer.testing.checks import ConformanceFailure, checks_for
from optimizer.testing.problems import Maker

__all__ = ["Check", "ConformanceFailure", "Maker", "conformance"]


@dataclass(frozen=True)
class Check:
    """One check of one optimizer: call it."""

    name: str
    description: str
    run: Callable[[Maker], None]
    maker: Maker

    def __call__(self) -> None:
        self.run(self.maker)

    def __str__(self) -> str:
        return f"{self.maker.optimizer_class.name}-{self.name}"


def conformance(optimizer_class: type[Optimizer], **options: Value) -> list[Check]:
    """Return the checks for ``optimizer_class`` with these options; its declared capabilities select them."""
    maker = Maker(optimizer_class, dict(options))
    return [Check(run.__name__, (run.__doc__ or "").strip(), run, maker) for run in checks_for(optimizer_class)]
