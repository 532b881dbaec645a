"""What a model of the application says before anything is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from optimizer.models.simulator_prior import Modelled
from optimizer.space import SearchSpace

Screen = Callable[[SearchSpace, float, int, Callable[[int, int], None]], Sequence[Modelled]]
"""What a model of the application says of configurations of a space: at a rate (requests/s), with a seed; told how many
it has asked of how many.
"""
