"""Predictions of a model of the application, before anything is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from optimizer.models.simulator_prior import Modelled
from optimizer.space import SearchSpace

Screen = Callable[[SearchSpace, float, int, Callable[[int, int], None]], Sequence[Modelled]]
"""(space, rate [requests/s], seed, progress) -> the model's predictions for configurations of the space.

``progress`` is called with (computed, total) numbers of configurations.
"""
