"""Additive Gaussian process for many services: a joint part, and parts for groups and for tied parameters.

The tail latency of a request is nearly a sum over the services that it waits for, and a service's parameters mainly
change its own term.  So the covariance is a sum too: k(x, x') = v_0 m(r_0) + sum over groups v_g m(r_g) + sum over sets
of tied parameters v_s f_s(x) f_s(x'), with m the Matern 5/2 function, r the scaled distance in all parameters or in
those of the group, and f the features of ``tied_parameters``.  Without groups only the joint part is left.

Sources: Rasmussen & Williams 2006 [RW06], algorithm 2.1 and section 5.4.1; additive: Duvenaud, Nickisch & Rasmussen,
NIPS 2011, and Kandasamy, Schneider & Poczos, ICML 2015; length scales that grow with the square root of the number of
parameters: Hvarfner, Hellsten & Nardi, ICML 2024 [H24].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.models.covariance import matern, products_of
from optimizer.models.tied_parameters import LENGTH, TiedParameters, tied_parameters
from optimizer.space import SearchSpace

Array = NDArray[np.float64]

# The first four were chosen on the development problems.
LENGTH_SHIFT = -0.8  # added to the logarithm of the length scales of [H24], which about halves them
LENGTH_DEVIATION = 1.0  # standard deviation of that logarithm
TIED_SHARE = 0.7  # share of the variance for all sets of tied parameters
GROUP_SHARE = 0.6  # share of the remaining variance for all groups
MIN_MEMBERS = 2  # of a set of tied parameters
JITTER = 1e-6
UNINFORMATIVE = 1e9  # variance of a point that says nothing
BLOCK_ROWS = 128  # rows of a large covariance computed at once: as many as stay in the processor's cache
MAX_FITTED = 64  # points for fitting hyperparameters; more changed nothing on the development problems
STEPS = 40  # of L-BFGS; more changed nothing on the development problems


@dataclass(frozen=True)
class Layout:
    """Structure of the encoded configurations (see ``surrogate.Encoder``).

    ``parameter[j]``: the parameter of column j.  ``group[p]``: the group of parameter p.  ``weight[p]``: the prior
    weight of parameter p, with a mean of one.  ``sets``: tied parameters whose effects are modelled as one part.
    """

    parameter: NDArray[np.int64]
    group: NDArray[np.int64]
    weight: Array
    sets: tuple[TiedParameters, ...] = ()

    @classmethod
    def of(cls, space: SearchSpace, columns: Sequence[int], weight: Array, *, alone: bool = False) -> Layout:
        """Return the layout of a space.

        ``columns``: number per parameter; ``weight``: per parameter, of any mean; ``alone``: a parameter that is not
        tied to others has a part of its own too, so that the effects of parameters add up far from the known points.
        """
        fewest = 1 if alone else MIN_MEMBERS
        number = {group: index for index, group in enumerate(space.groups)}
        group = np.array([number[parameter.group] for parameter in space.parameters])
        sets = tuple(tied for tied in tied_parameters(space, columns) if len(tied.members) >= fewest)
        return cls(np.repeat(np.arange(len(columns)), columns), group, weight / weight.mean(), sets)

    @property
    def parameters(self) -> int:
        return len(self.group)

    @property
    def groups(self) -> int:
        return int(self.group.max()) + 1 if len(self.group) else 0

    def features(self, x: Array) -> list[Array]:
        """Return the features of each set of tied parameters, (n, k); members share the effect of one parameter."""
        return [tied.features(x, self.weight[tied.members] / self.weight[tied.members].sum()) for tied in self.sets]


class AdditiveProcess:
    """A process fitted to x (n, columns) and standardised y (n,); ``noise`` (n,): known variances of y.

    Hyperparameters maximise the posterior: length scale of each parameter, variance of each part and of each set of
    tied parameters, and an additional noise variance.
    """

    def __init__(
        self,
        layout: Layout,
        x: Array,
        y: Array,
        noise: Array,
        theta: Array | None = None,
        leading: Array | None = None,
    ) -> None:
        """Fit the process.  ``theta``: known hyperparameters; ``leading``: known covariance of the first points."""
        self.layout = layout
        self._x, self._y, self._noise = x, y, noise
        self._parts = _parts(layout)
        self._columns = [np.flatnonzero(np.isin(layout.parameter, members)) for members, _ in _groups(self._parts)]
        self._features = layout.features(x)
        self._centre, self._spread = _prior(layout, len(self._parts))
        self._theta = self._fitted() if theta is None else theta
        self.inverse, self.variances, self.amounts, self._extra = self._split(self._theta)
        self._noise_free = self._covariance(leading)
        self._factorise()

    def widened(self, x: Array, y: Array, noise: Array) -> AdditiveProcess:
        """Return a process of the same hyperparameters with the points ``x`` added; ``y``, ``noise``: of all points."""
        return AdditiveProcess(self.layout, np.concatenate([self._x, x]), y, noise, self._theta, self._noise_free)

    def with_more(self, x: Array, y: Array) -> AdditiveProcess:
        """Return the process with further points (m, columns) and their noise-free values (m,)."""
        return self.widened(x, np.concatenate([self._y, y]), np.concatenate([self._noise, np.zeros(len(y))]))

    # ------------------------------------------------------------------ fitting

    def _fitted(self) -> Array:
        from scipy.optimize import minimize  # imported here: it takes a second

        rows = _spread(self._y, MAX_FITTED)
        known = _PairTerms(self.layout, self._parts, self._x[rows], [feature[rows] for feature in self._features])
        data = (known, self._y[rows], self._noise[rows])
        bounds = [(c - 4 * s, c + 4 * s) for c, s in zip(self._centre, self._spread, strict=True)]
        options = {"maxiter": STEPS}
        optimum = minimize(self._loss, self._centre, data, "L-BFGS-B", jac=True, bounds=bounds, options=options)
        return np.asarray(optimum.x)

    def _split(self, theta: Array) -> tuple[Array, Array, Array, float]:
        """Split theta: inverse squared length scales (P,), variances of the parts and of the sets, noise variance."""
        lengths, variances, amounts, extra = np.split(
            theta, np.cumsum([self.layout.parameters, len(self._parts), len(self.layout.sets)])
        )
        return np.exp(-2.0 * lengths), np.exp(variances), np.exp(amounts), float(np.exp(extra[0]))

    def _loss(self, theta: Array, known: _PairTerms, y: Array, noise: Array) -> tuple[float, Array]:
        """Return the negative log posterior and its gradient ([RW06] equations 2.30 and 5.9)."""
        from scipy.linalg import cho_solve
        from scipy.linalg.lapack import dpotri

        inverse, variances, amounts, extra = self._split(theta)
        covariances, slopes = known.covariances(inverse, variances)
        noisy = known.whole(covariances, variances, amounts, noise + extra + JITTER)
        try:
            factor = np.linalg.cholesky(noisy)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(theta)
        alpha = cho_solve((factor, True), y, check_finite=False)
        inverted, _ = dpotri(factor, lower=1)  # only the lower triangle of the inverse
        off = (theta - self._centre) / self._spread
        value = 0.5 * float(y @ alpha) + float(np.log(np.diag(factor)).sum()) + 0.5 * float(off @ off)
        twice = inverted - np.outer(alpha, alpha)  # twice the derivative by the covariance
        pull, own = 2.0 * known.pairs_of(twice), np.diag(twice)  # of the pairs, each counted twice, and of the points
        pulled = [pull * slope for slope in slopes]
        by_length = np.zeros(self.layout.parameters)
        for index, (members, stack) in enumerate(known.stacks, start=1):  # a group is in the joint part too
            by_length[members] = stack @ (pulled[0] + pulled[index] if len(pulled) > 1 else pulled[0])
        by_variance = np.array([pull @ covariance for covariance in covariances]) + variances * own.sum()
        by_amount = amounts * (known.products @ pull + known.squares @ own)
        by_noise = extra * float(own.sum())
        gradient = 0.5 * np.concatenate([inverse * by_length, by_variance, by_amount, [by_noise]])
        return value, gradient + off / self._spread

    def _factorise(self) -> None:
        from scipy.linalg import cho_factor, cho_solve

        self._errors = self._noise + self._extra + JITTER
        self._factor = cho_factor(self._noise_free + np.diag(self._errors), lower=True, overwrite_a=True)
        self._alpha = cho_solve(self._factor, self._y)

    def _covariance(self, leading: Array | None) -> Array:
        """Return the covariance of the points, (n, n); ``leading``: that of the first ones, if known."""
        if leading is None:
            return self._cross(self._x)[0]
        known = len(leading)
        more, _ = self._cross(self._x[known:])
        return np.block([[leading, more[:, :known].T], [more]])

    # ------------------------------------------------------------------ prediction

    @property
    def relevance(self) -> Array:
        """Effect of each parameter on the function, (P,), the largest 1: from length scales and variances of parts."""
        squared = np.zeros(self.layout.parameters)
        for (members, factor), variance in zip(self._parts, self.variances, strict=True):
            squared[members] += variance * factor * self.inverse[members]
        for tied, amount in zip(self.layout.sets, self.amounts, strict=True):
            weight = self.layout.weight[tied.members]
            squared[tied.members] += amount * (weight / weight.sum() / LENGTH) ** 2
        return np.asarray(np.sqrt(squared / squared.max()))

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of the noise-free function at x (m, columns), both (m,)."""
        return self._answer(*self._cross(x))

    def difference(self, x: Array, reference: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of f(x) - f(reference), both (m,); x (m, columns), reference (columns,).

        A difference is far more certain than its two terms where they have most in common ([RW06] equation 2.24).
        """
        from scipy.linalg import solve_triangular

        count = len(self._x)
        nothing_known = np.append(self._y, 0.0), np.append(self._noise, UNINFORMATIVE)
        wider = self.widened(reference[None, :], *nothing_known)  # only for the covariance with the reference
        cross, features = wider._cross(x)
        at, at_features = wider._cross(reference[None, :])
        slope = cross[:, :count] - at[:, :count]
        half = solve_triangular(self._factor[0], slope.T, lower=True, check_finite=False)
        prior = self._own_variance(features) + self._own_variance(at_features) - 2.0 * cross[:, count]
        variance = prior - np.einsum("ij,ij->j", half, half)
        return slope @ self._alpha, np.sqrt(np.maximum(variance, 1e-12))

    def predict_both(self, wider: AdditiveProcess, x: Array) -> tuple[Array, Array, Array]:
        """Predict as ``predict`` does, and add the mean of ``wider``, (m,).

        ``wider``: a process of the same hyperparameters whose points begin with those of this one.  Covariances, which
        take the most time, are computed once for both.
        """
        cross, features = wider._cross(x)
        return *self._answer(cross[:, : len(self._x)], features), cross @ wider._alpha

    def part(self, number: int, features: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of the part of set ``number`` at its features (m, k), both (m,).

        Features of differences give the part's differences: it is linear in them.
        """
        from scipy.linalg import cho_solve

        amount = self.amounts[number]
        cross = amount * features @ self._features[number].T
        known = np.einsum("ij,ji->i", cross, cho_solve(self._factor, cross.T))
        variance = amount * np.einsum("ij,ij->i", features, features) - known
        return cross @ self._alpha, np.sqrt(np.maximum(variance, 0.0))

    def _answer(self, cross: Array, features: list[Array]) -> tuple[Array, Array]:
        from scipy.linalg import solve_triangular

        mean = cross @ self._alpha
        half = solve_triangular(self._factor[0], cross.T, lower=True, check_finite=False)
        variance = self._own_variance(features) - np.einsum("ij,ij->j", half, half)
        return mean, np.sqrt(np.maximum(variance, 1e-12))

    def _own_variance(self, features: list[Array]) -> Array:
        """Return the prior variance of points by their scaled features, (m,)."""
        return np.asarray(float(self.variances.sum()) + sum(np.einsum("ij,ij->i", f, f) for f in features))

    @property
    def means(self) -> Array:
        """Mean of the noise-free function at the points themselves, (n,)."""
        return np.asarray(self._y - self._errors * self._alpha)

    def left_out(self) -> tuple[Array, Array]:
        """Predict each measured value without it: mean and standard deviation, noise included, both (n,).

        Closed form with the hyperparameters held ([RW06] equation 5.12).
        """
        from scipy.linalg import cho_solve

        precision = np.diag(cho_solve(self._factor, np.eye(len(self._y))))
        return self._y - self._alpha / precision, np.sqrt(1.0 / precision)

    @property
    def noise_variance(self) -> float:
        """Fitted variance of a value besides its known one."""
        return self._extra

    def _cross(self, x: Array) -> tuple[Array, list[Array]]:
        """Return the covariance of new points with the fitted ones, (m, n), and the scaled features of the new ones."""
        total = np.zeros((len(x), len(self._x)))
        scaled = np.sqrt(self.inverse)[self.layout.parameter]
        new, old = x * scaled, self._x * scaled
        products = [products_of(new[:, columns], old[:, columns]) for columns in self._columns]
        for begin in range(0, len(x), BLOCK_ROWS):
            rows = slice(begin, begin + BLOCK_ROWS)
            block = total[rows]
            squared = np.zeros_like(block)
            for index, (left, right) in enumerate(products, start=1):
                distance = left[rows] @ right
                np.maximum(distance, 0.0, out=distance)
                squared += distance
                if len(self._parts) > 1:
                    block += matern(distance, self._parts[index][1], self.variances[index])
            block += matern(squared, self._parts[0][1], self.variances[0])
        features = [math.sqrt(amount) * f for amount, f in zip(self.amounts, self.layout.features(x), strict=True)]
        for new_features, old_features, amount in zip(features, self._features, self.amounts, strict=True):
            total += new_features @ (math.sqrt(amount) * old_features).T
        return total, features


class _PairTerms:
    """Terms of the covariance that do not depend on the hyperparameters, once for each pair of fitted points.

    ``stacks``: for each group its parameters and their squared differences, (members, pairs).  ``products``: products
    of the features of each set, (sets, pairs); ``squares``: those of a point with itself, (sets, n).
    """

    def __init__(
        self, layout: Layout, parts: list[tuple[NDArray[np.int64], float]], x: Array, features: list[Array]
    ) -> None:
        self._parts = parts
        self._count = len(x)
        self._rows, self._columns = np.tril_indices(len(x), -1)
        distances = _distances(layout, x[self._rows] - x[self._columns])
        self.stacks = [(members, distances[members]) for members, _ in _groups(parts)]
        self.products = np.array([self.pairs_of(feature @ feature.T) for feature in features])
        self.products = self.products.reshape(len(features), len(self._rows))
        self.squares = np.array([(feature * feature).sum(axis=1) for feature in features]).reshape(
            len(features), len(x)
        )

    def pairs_of(self, matrix: Array) -> Array:
        """Return the part below the diagonal of a matrix (n, n), (pairs,)."""
        return np.asarray(matrix[self._rows, self._columns])

    def whole(self, covariances: list[Array], variances: Array, amounts: Array, noise: Array) -> Array:
        """Return the lower triangle of the covariance, (n, n): its factorisation reads nothing else."""
        covariance = np.zeros((self._count, self._count))
        covariance[self._rows, self._columns] = np.sum(covariances, axis=0) + amounts @ self.products
        np.fill_diagonal(covariance, variances.sum() + amounts @ self.squares + noise)
        return covariance

    def covariances(self, inverse: Array, variances: Array) -> tuple[list[Array], list[Array]]:
        """Return v m(r) of each part and pair, and -2 v dm/d(r^2), which the gradient needs."""
        by_group = [inverse[members] @ stack for members, stack in self.stacks]
        distances = [np.sum(by_group, axis=0), *(by_group if len(self._parts) > 1 else ())]
        covariances, slopes = [], []
        for (_, factor), distance, variance in zip(self._parts, distances, variances, strict=True):
            r = np.sqrt(5.0 * factor * distance)
            fading = variance * np.exp(-r)
            slope = (1.0 + r) * fading
            covariances.append(slope + r * r / 3.0 * fading)
            slopes.append(5.0 / 3.0 * factor * slope)
        return covariances, slopes


def _spread(y: Array, count: int) -> NDArray[np.int64]:
    """Return the rows of at most ``count`` values, evenly spread from the lowest to the highest."""
    if len(y) <= count:
        return np.arange(len(y))
    places = np.linspace(0, len(y) - 1, count).round().astype(np.int64)
    return np.sort(np.argsort(y, kind="stable")[places])


def _parts(layout: Layout) -> list[tuple[NDArray[np.int64], float]]:
    """Return the parameters of the joint part and of each group, with factors that make distances comparable."""
    every = np.arange(layout.parameters)
    parts = [(every, 1.0)]
    if layout.groups > 1:
        for group in range(layout.groups):
            members = np.flatnonzero(layout.group == group)
            parts.append((members, layout.parameters / len(members)))
    return parts


def _groups(parts: list[tuple[NDArray[np.int64], float]]) -> list[tuple[NDArray[np.int64], float]]:
    """Return the parts of the groups, or the joint part if there are none: each parameter is in exactly one."""
    return parts[1:] or parts


def _prior(layout: Layout, parts: int) -> tuple[Array, Array]:
    """Return means and standard deviations of the hyperparameters' logarithms, which are normal and independent.

    Length scales grow as in [H24] (the mode of its log-normal density), and are shorter for parameters of larger
    weight.  Groups share their part of the variance by the weights of their parameters.
    """
    count = layout.parameters
    length = LENGTH_SHIFT + math.sqrt(2.0) + 0.5 * math.log(count) - 3.0 - 0.5 * np.log(np.maximum(layout.weight, 0.05))
    if parts == 1:
        shares = np.array([1.0])
    else:
        by_group = np.bincount(layout.group, layout.weight) / layout.weight.sum()
        shares = np.concatenate([[1 - GROUP_SHARE], GROUP_SHARE * np.maximum(by_group, 0.01)])
    by_name = np.array([float(layout.weight[tied.members].sum()) for tied in layout.sets])
    if layout.sets:
        shares = (1 - TIED_SHARE) * shares
        by_name = TIED_SHARE * by_name / by_name.sum()
    centre = np.concatenate([length, np.log(shares), np.log(by_name), [-4.0]])
    spread = np.concatenate([np.full(count, LENGTH_DEVIATION), np.ones(parts), np.ones(len(by_name)), [1.0]])
    return centre, spread


def _distances(layout: Layout, differences: Array) -> Array:
    """Return the squared differences by parameter, (P, pairs), of differences (pairs, columns)."""
    squared = np.zeros((layout.parameters, len(differences)))
    for column, parameter in enumerate(layout.parameter):
        squared[parameter] += differences[:, column] ** 2
    return squared
