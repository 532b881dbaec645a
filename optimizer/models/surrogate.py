"""What surrogate models share: configurations as vectors, values for failed trials, and the Gaussian process."""

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

    A categorical parameter with k choices takes k columns, scaled so that two choices are 1 apart; a boolean takes
    one.  A special value of an ordered parameter stands at the end of its range, and a column more tells it from there.
    Coordinates are snapped to the values they stand for before encoding, so that the model sees what is run and not
    what was drawn (Garrido-Merchan & Hernandez-Lobato 2020, section 3).
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self.columns = tuple(_columns(parameter) for parameter in space.parameters)  # by parameter
        self.width = sum(self.columns)
        self._units: dict[Configuration, Array] = {}  # of what was told: to look at each of its values takes longest

    def snap(self, units: Array) -> Array:
        """Unit coordinates (n, d) moved to the values that they stand for, (n, d)."""
        return self._space.snap(units)

    def encode(self, snapped: Array) -> Array:
        """Snapped unit coordinates (n, d) as vectors (n, width)."""
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
        """Unit coordinates of configurations, (n, d)."""
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
    """The coordinate inside the usual range (n,), and for each special value a column that is 1 there, (n, 1 + k)."""
    begin, stop = parameter.usual
    at = np.array([parameter.to_unit(value) for value in parameter.special])
    special = (np.abs(snapped[:, None] - at[None, :]) < 1e-9).astype(np.float64)
    usual = np.clip((snapped - begin) / (stop - begin), 0.0, 1.0)
    return np.concatenate([usual[:, None], special], axis=1)


def worst_for_failed(observations: Sequence[Observation]) -> list[tuple[Observation, float]]:
    """Observations with the value that a model of the values alone should see.

    Failed and infeasible trials and those that break a measured constraint get the worst value told so far.  It is made
    up anew at each fit and stored nowhere.  Aborted trials say nothing and are left out; where nothing has completed
    the list is empty.
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
    """Hyperparameters of a good marginal likelihood, in the form scikit-learn wants: (theta, -log likelihood).

    30 steps from length scales of one range.  On 10-dimensional bowls with 30 noisy values this was as good as
    scikit-optimize's three climbs to convergence, in half the time: so few points do not determine more.
    """
    from scipy.optimize import minimize

    optimum = minimize(objective, theta, method="L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": 30})
    return optimum.x, float(optimum.fun)


def one_thread() -> AbstractContextManager[object]:
    """Linear algebra on one thread: threads cost five times what such small matrices take (measured: 880 ms against
    150 ms per ask with 30 observations on 2 cores), and the last digits would depend on how many there are.
    """
    limits: AbstractContextManager[object] = _threads(len(sys.modules)).limit(limits=1)
    return limits


@lru_cache(maxsize=1)
def _threads(modules: int) -> Any:
    """Return the libraries of linear algebra, looked up again only when modules were loaded: it takes 2 ms."""
    # Comes with scikit-learn and is only wanted with it; it ships no types.
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


class Surrogate(Protocol):
    """A fitted model of the values, standardised to mean 0 and deviation 1."""

    def predict(self, x: Array, return_std: bool = True) -> tuple[Array, Array]:
        """Mean and standard deviation at encoded points (n, width), both (n,)."""


def standardised(y: Array) -> Array:
    """y (n,) with mean 0 and deviation 1; all zero where they are equal."""
    spread = float(np.std(y))
    scaled: Array = (y - float(np.mean(y))) / (spread if spread > 0 else 1.0)
    return scaled


class GaussianProcess:
    """scikit-optimize's Gaussian process with its defaults: Matern 5/2 with a length scale per column, noise fitted.

    x (n, width) on the unit cube, y (n,) in any unit; ``predict`` answers in y standardised (mean 0, deviation 1).
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
        """Mean and standard deviation of the noise-free function, both (n,), standardised.

        Rasmussen & Williams 2006, algorithm 2.1, from the factor that the fit left.  scikit-optimize's own predict
        inverts the matrix instead and warns of negative variances where the noise is small.  ``return_std`` is
        there because its acquisition functions pass it.
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
        """Mean over the trees, and the root of the variance between and inside them (law of total variance)."""
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
        """Return the median, and half the distance between the outer quantiles."""
        low, middle, high = (model.predict(x) for model in self.models)
        return middle, np.maximum(0.5 * (high - low), 0.0)
