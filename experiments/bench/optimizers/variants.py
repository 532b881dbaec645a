"""Tailor's optimizer without some parts of its treatment of tied parameters, to measure the gain of each part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from optimizer.algorithms import tailor
from optimizer.algorithms.tailor import Tailor
from optimizer.models import additive
from optimizer.sampling import latin_hypercube
from optimizer.space import Configuration

NONE = 10**9  # more members than any set of tied parameters has


class Variant(Tailor):
    """``fewest``: members of a modelled set; ``moved``: share of the candidates that move tied parameters as one."""

    fewest, moved = additive.MIN_MEMBERS, tailor._TIED_SHARE
    starts_together = True

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        with self._set():
            return super()._suggest(index, rng)

    def recommend(self) -> Configuration | None:
        with self._set():
            return super().recommend()

    def _design_points(self, size: int) -> list[Configuration]:
        return (
            super()._design_points(size) if self.starts_together else latin_hypercube(self.space, size, self.stream(1))
        )

    @contextmanager
    def _set(self) -> Iterator[None]:
        """The constants of this variant; a process of a race does one thing at a time."""
        before = additive.MIN_MEMBERS, tailor._TIED_SHARE
        additive.MIN_MEMBERS, tailor._TIED_SHARE = self.fewest, self.moved
        try:
            yield
        finally:
            additive.MIN_MEMBERS, tailor._TIED_SHARE = before


class Neither(Variant):
    fewest, starts_together = NONE, False


class StartAlone(Variant):
    fewest = NONE


class ModelAlone(Variant):
    starts_together = False


class NeverMoved(Variant):
    moved = 0.0


class AlsoSingle(Variant):
    fewest = 1
