"""Model of the resource costs of trials by group of parameters (a service's CPU time per request).

A trial has one noisy value.  The CPU time of a service per request is measured for each service, is nearly free of
noise, and depends on that service's own parameters; on a busy machine, latency follows the sum.  So the logarithm of a
group's cost is modelled as a level of the group, a term of the trial (the machine's speed, the load), and a linear
function of the group's parameters.  Tied parameters have the same coefficients, so that thirty services give thirty
measurements of one parameter's cost.  The sum over the groups is a prior mean of the values, scaled by how well they
agree with it (``simulator_prior.fitted_rho``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from optimizer.models.ridge import ridge
from optimizer.models.tied_parameters import tied_parameters
from optimizer.space import SearchSpace

Array = NDArray[np.float64]

MIN_TRIALS = 4  # with fewer the model is not used
MIN_SHARE = 0.005  # of the total cost; smaller costs of a group are noise
EFFECT = 0.3  # prior standard deviation of a coefficient and of a trial's term, in logarithms


class ResourceModel:
    """The model fitted to encoded configurations x (n, columns) and the costs of these n trials by group, above 0."""

    expected_rho = 1.0  # see ``simulator_prior.PriorMean``

    def __init__(
        self, space: SearchSpace, columns: Sequence[int], x: Array, taken: Sequence[Mapping[str, float]]
    ) -> None:
        self._groups = sorted({name for costs in taken for name in costs})
        shared = _SharedCoefficients(space, columns, self._groups)
        rows = [
            (trial, group, math.log(costs[name]))
            for trial, costs in enumerate(taken)
            for group, name in enumerate(self._groups)
            if costs.get(name, 0.0) > MIN_SHARE * sum(costs.values())
        ]
        trial = np.array([row[0] for row in rows], dtype=np.int64)
        group = np.array([row[1] for row in rows], dtype=np.int64)
        logs = np.array([row[2] for row in rows])
        levels = np.eye(len(self._groups))[group]
        design = np.hstack([shared.features(x)[trial, group], levels, np.eye(len(taken))[trial]])
        own = shared.count + len(self._groups)
        prior = np.full(design.shape[1], EFFECT)
        prior[shared.count : own] = 100.0  # the level of a group is not known at all
        coefficients, _ = ridge(design, logs, np.zeros(len(logs)), prior, own)
        self._levels = np.full(len(self._groups), -np.inf)
        known = np.unique(group)
        self._levels[known] = coefficients[shared.count + known]
        self._slopes = shared.spread(coefficients[: shared.count])

    def at(self, x: Array) -> Array:
        """Return the logarithm of the total cost at encoded configurations (m, columns), (m,)."""
        logs = x @ self._slopes + self._levels
        return np.asarray(np.logaddexp.reduce(logs, axis=1))


class _SharedCoefficients:
    """Coefficients by column of the encoding: tied parameters share theirs, scaled by the range of all."""

    def __init__(self, space: SearchSpace, columns: Sequence[int], groups: Sequence[str]) -> None:
        number = {name: index for index, name in enumerate(groups)}
        width = sum(columns)
        self.count, self._groups = 0, len(groups)
        self._coefficient = np.zeros(width, dtype=np.int64)
        self._factor = np.zeros(width)
        self._group = np.full(width, -1)
        for tied in tied_parameters(space, columns):
            size = columns[tied.members[0]]
            for member, begin, span in zip(tied.members, tied.begins, tied.span, strict=True):
                here = slice(begin, begin + size)
                self._coefficient[here] = self.count + np.arange(size)
                self._factor[here] = 1.0
                self._factor[begin] = span if space.parameters[member].ordered else 1.0
                self._group[here] = number.get(space.parameters[member].group, -1)
            self.count += size

    def features(self, x: Array) -> Array:
        """Return the regression features, (n, groups, coefficients), of encoded configurations (n, columns)."""
        features = np.zeros((len(x), self._groups, self.count))
        for column, (group, coefficient) in enumerate(zip(self._group, self._coefficient, strict=True)):
            if group >= 0:
                features[:, group, coefficient] += self._factor[column] * x[:, column]
        return features

    def spread(self, coefficients: Array) -> Array:
        """Return the slope of each group's logarithm in each column, (columns, groups)."""
        slopes = np.zeros((len(self._group), self._groups))
        for column, (group, coefficient) in enumerate(zip(self._group, self._coefficient, strict=True)):
            if group >= 0:
                slopes[column, group] = self._factor[column] * coefficients[coefficient]
        return slopes
