"""Surrogate models: configurations as vectors, values for failed trials, a Gaussian process, a forest, trees."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from optimizer.space import Configuration, Parameter, SearchSpace
from optimizer.trial import Observation, ObservationState

Array = NDArray[np.float64]


class Encoder:
    """Configurations as vectors: ordered parameters by their unit coordinate, choices one-hot.

    A categorical parameter with k choices has k columns, scaled so that two choices are 1 apart; a boolean has one.  A
    special value of an ordered parameter lies at the end of its range and has one more column, a flag.  Coordinates
    are snapped to their values before encoding, so that the model sees the configurations that are run
    (Garrido-Merchan & Hernandez-Lobato 2020, section 3).
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self.columns = tuple(_columns(parameter) for parameter in space.parameters)  # by parameter
        self.width = sum(self.columns)
        self._units: dict[Configuration, Array] = {}  # cache: computing coordinates takes longest

    def snap(self, units: Array) -> Array:
        """Move unit coordinates (n, d) to those of the values whose cells hold them, (n, d)."""
        return self._space.snap(units)

    def encode(self, snapped: Array) -> Array:
        """Return vectors (n, width) for snapped unit coordinates (n, d)."""
        columns = []
        for j, parameter in enumerate(self._space.parameters):
            if parameter.kind == "boolean":
                columns.append(np.floor(snapped[:, j] * 2.0)[:, None])
            elif parameter.kind == "categorical":
                index = np.floor(snapped[:, j] * len(parameter.choices)).astype(np.int64)
                columns.append(np.eye(len(parameter.choices))[index] / np.sqrt(2.0))
            elif parameter.special:
                columns.append(_with_special(parameter, snapped[:, j]))
            else:
                columns.append(snapped[:, j][:, None])
        return np.concatenate(columns, axis=1)

    def units(self, configurations: Sequence[Configuration]) -> Array:
        """Return the unit coordinates of configurations, (n, d)."""
        for configuration in configurations:
            if configuration not in self._units:
                self._units[configuration] = self._space.to_unit(configuration)
        rows = [self._units[configuration] for configuration in configurations]
        return np.stack(rows) if rows else np.empty((0, len(self._space)))


def _columns(parameter: Parameter) -> int:
    if parameter.kind == "categorical":
        return len(parameter.choices)
    return 1 + len(parameter.special)


def _with_special(parameter: Parameter, snapped: Array) -> Array:
    """Return the coordinate inside low to high and a flag for each of k special values, (n, 1 + k)."""
    begin, stop = parameter.usual
    at = np.array([parameter.to_unit(value) for value in parameter.special])
    special = (np.abs(snapped[:, None] - at[None, :]) < 1e-9).astype(np.float64)
    usual = np.clip((snapped - begin) / (stop - begin), 0.0, 1.0)
    return np.concatenate([usual[:, None], special], axis=1)


def worst_for_failed(observations: Sequence[Observation]) -> list[tuple[Observation, float]]:
    """Return the observations with the values for a model that knows no failures and no constraints.

    Failed and infeasible trials and those that break a measured constraint get the worst value told so far; it is
    stored nowhere.  Aborted trials are left out.  The list is empty where no trial has completed.
    """
    values = [observation.value for observation in observations if observation.value is not None]
    if not values:
        return []
    worst = max(values)
    return [
        (observation, worst if observation.value is None or not observation.keeps_limits else observation.value)
        for observation in observations
        if observation.state is not ObservationState.ABORTED
    ]


def _maximise_likelihood(objective: Any, theta: Array, bounds: Array) -> tuple[Array, float]:
    """Climb to a good marginal likelihood; return what scikit-learn expects: (theta, -log likelihood).

    30 steps from length scales of one range.  On 10-dimensional bowls with 30 noisy values this was as good as
    scikit-optimize's three climbs to convergence, in half the time.
    """
    from scipy.optimize import minimize

    optimum = minimize(objective, theta, method="L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": 30})
    return optimum.x, float(optimum.fun)


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which linear algebra uses one thread.

    With so small matrices several threads are slower (measured: 880 ms against 150 ms per ask with 30 observations on 2
    cores), and the last digits would depend on their number.
    """
    limits: AbstractContextManager[object] = _threads(len(sys.modules)).limit(limits=1)
    return limits


@lru_cache(maxsize=1)
def _threads(modules: int) -> Any:
    """Return the controller of the linear algebra libraries; the look-up (2 ms) is repeated after new imports."""
    # Installed with scikit-learn and needed only with it; it ships no types.
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


class Surrogate(Protocol):
    """A fitted model of the values, standardised to mean 0 and deviation 1."""

    def predict(self, x: Array, return_std: bool = True) -> tuple[Array, Array]:
        """Return mean and standard deviation at encoded points (n, width), both (n,)."""


def standardised(y: Array) -> Array:
    """Return y (n,) scaled to mean 0 and deviation 1; all zero where the values are equal."""
    spread = float(np.std(y))
    scaled: Array = (y - float(np.mean(y))) / (spread if spread > 0 else 1.0)
    return scaled


class GaussianProcess:
    """scikit-optimize's Gaussian process with its defaults: Matern 5/2 with a length scale per column, noise fitted.

    x (n, width) on the unit cube, y (n,) in any unit; ``predict`` returns standardised values (mean 0, deviation 1).
    """

    def __init__(self, x: Array, y: Array, seed: int) -> None:
        # Imported here: an `import optimizer` must not pay for scikit-learn.
        from sklearn.exceptions import ConvergenceWarning
        from skopt.learning import GaussianProcessRegressor
        from skopt.learning.gaussian_process.kernels import ConstantKernel, Matern

        width = x.shape[1]
        kernel = ConstantKernel(1.0, (0.01, 1000.0)) * Matern(np.ones(width), [(0.01, 100.0)] * width, nu=2.5)
        self.model: Any = GaussianProcessRegressor(
            kernel=kernel, noise="gaussian", optimizer=_maximise_likelihood, random_state=seed
        )
        with one_thread(), warnings.catch_warnings():
            # A length scale at its bound is an answer (the parameter does not matter), not a failure.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.fit(x, standardised(y))

    def predict(self, x: Array, return_std: bool = True) -> tuple[Array, Array]:
        """Return mean and standard deviation of the noise-free function at x (n, width), both (n,), standardised.

        Rasmussen & Williams 2006, algorithm 2.1, with the factor from the fit.  scikit-optimize's own predict inverts
        the matrix instead and warns of negative variances where the noise is small.  ``return_std`` is ignored; its
        acquisition functions pass it.
        """
        from scipy.linalg import solve_triangular

        with one_thread():
            cross = self.model.kernel_(x, self.model.X_train_)
            mean = cross @ self.model.alpha_
            half = solve_triangular(self.model.L_, cross.T, lower=True, check_finite=False)
            variance = self.model.kernel_.diag(x) - np.einsum("ij,ij->j", half, half)
        return mean, np.sqrt(np.maximum(variance, 0.0))


class Forest:
    """scikit-optimize's random forest with the settings of its ``forest_minimize``: 100 trees, leaves of 3."""

    def __init__(self, x: Array, y: Array, seed: int) -> None:
        from skopt.learning import RandomForestRegressor

        self.model: Any = RandomForestRegressor(n_estimators=100, min_samples_leaf=3, n_jobs=1, random_state=seed).fit(
            x, standardised(y)
        )

    def predict(self, x: Array, return_std: bool = True) -> tuple[Array, Array]:
        """Return the mean over the trees and the total deviation between and inside them, both (n,)."""
        mean, deviation = self.model.predict(x, return_std=True)
        return mean, deviation


class BoostedTrees:
    """Boosted trees for the 16 %, 50 % and 84 % quantiles, with the settings of scikit-optimize's ``gbrt_minimize``.

    scikit-learn's own, since scikit-optimize's wrapper calls a function that numpy no longer has.
    """

    def __init__(self, x: Array, y: Array, seed: int) -> None:
        from sklearn.ensemble import GradientBoostingRegressor

        scaled = standardised(y)
        self.models: list[Any] = [
            GradientBoostingRegressor(loss="quantile", alpha=alpha, n_estimators=30, random_state=seed).fit(x, scaled)
            for alpha in (0.16, 0.5, 0.84)
        ]

    def predict(self, x: Array, return_std: bool = True) -> tuple[Array, Array]:
        """Return the median and half the distance between the outer quantiles, both (n,)."""
        low, middle, high = (model.predict(x) for model in self.models)
        return middle, np.maximum(0.5 * (high - low), 0.0)
