"""Tailor's optimizer without some of its parts, to measure the gain of each part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from optimizer import candidates
from optimizer.algorithms.tailor import Tailor
from optimizer.models import additive
from optimizer.sampling import latin_hypercube, middle, values_are_few
from optimizer.space import Configuration

NONE = 10**9  # more members than any set of tied parameters has


class Variant(Tailor):
    """``fewest``: members of a modelled set; ``moved``: share of the candidates that move tied parameters as one."""

    fewest, moved = additive.MIN_MEMBERS, candidates.TIED_SHARE
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
        before = additive.MIN_MEMBERS, candidates.TIED_SHARE
        additive.MIN_MEMBERS, candidates.TIED_SHARE = self.fewest, self.moved
        try:
            yield
        finally:
            additive.MIN_MEMBERS, candidates.TIED_SHARE = before


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


class Near(Tailor):
    """In small spaces, too, it starts near the best so far, and only tied parameters have parts of their own."""

    few_values = False


class FillAlone(Near):
    """The start of small spaces without the parts of the model."""

    def _design_point(self, number: int, size: int) -> Configuration:
        if not values_are_few(self.space):
            return super()._design_point(number, size)
        return latin_hypercube(self.space, size, self.stream(1))[number]


class PartsAlone(Tailor):
    """The parts of the model of small spaces without their start."""

    def _design_point(self, number: int, size: int) -> Configuration:
        return middle(self.space) if number == 0 else self._part_of_the_way(self._design_points(size)[number], number)
