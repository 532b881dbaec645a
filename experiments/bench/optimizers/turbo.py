"""TuRBO-1 with BoTorch's models: Thompson sampling in a trust region around the best configuration.

Source: Eriksson, Pearce, Gardner, Turner & Poloczek, Scalable global optimization via local Bayesian optimization,
NeurIPS 2019 [E19]; settings of its appendix and of BoTorch's tutorial on it [T].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from optimizer.library_optimizer import LibraryOptimizer, library
from optimizer.space import Configuration, SearchSpace
from optimizer.trial import Observation

Array = NDArray[np.float64]
LONGEST, FIRST, SHORTEST = 1.6, 0.8, 0.5**7  # length of the trust region [E19, section 2]
SUCCESSES = 3  # in a row until it is doubled [E19]; [T] has 10
GAIN = 1e-3  # a success is better than the best by this part of it [E19, code; T]
MOVED = 20  # expected number of coordinates that a candidate does not share with the centre [E19; T]
LEAST_VARIANCE = 1e-6  # of a standardised value


class Cube:
    """A space as a unit cube: a number for a numeric parameter or a boolean, one for each choice of a categorical one.

    A point's configuration has the values in whose cells its numbers lie and the choices with the largest numbers.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self.widths = [len(p.choices) if p.kind == "categorical" else 1 for p in space.parameters]

    @property
    def width(self) -> int:
        return sum(self.widths)

    def encode(self, configuration: Configuration) -> Array:
        """Return the point of a configuration, (width,)."""
        unit = self._space.to_unit(configuration)
        parts = [
            unit[j : j + 1] if width == 1 else np.eye(width)[min(int(unit[j] * width), width - 1)]
            for j, width in enumerate(self.widths)
        ]
        return np.concatenate(parts)

    def decode(self, point: Array) -> Configuration:
        """Return the configuration of a point, (width,)."""
        parts = np.split(point, np.cumsum(self.widths)[:-1])
        units = [float(part[0]) if part.size == 1 else (int(np.argmax(part)) + 0.5) / part.size for part in parts]
        return self._space.from_unit(np.clip(units, 0.0, 1.0))


def known_errors(observations: Sequence[Observation]) -> Array | None:
    """Return standard errors, (n,), a failed trial's being the largest; None where a completed one's is unknown."""
    completed = [observation.standard_error for observation in observations if observation.value is not None]
    known = [error for error in completed if error is not None]
    if not known or len(known) < len(completed):
        return None
    largest = max(known)
    errors = [observation.standard_error for observation in observations]
    return np.array([largest if error is None else error for error in errors])


class TuRBO(LibraryOptimizer):
    """The model sees the configurations that are measured, rounded; the trust region is in the relaxed cube.

    Its centre is the told configuration with the lowest posterior mean, as [E19] advises where there is noise.
    Standard errors are the noise of the model where all values have one.  A failed trial counts with the worst value
    told.
    """

    name = "turbo"
    summary = "TuRBO-1: Thompson sampling in a trust region"
    source = "Eriksson et al. 2019 (NeurIPS); BoTorch's models"
    suits = "to compare with"
    budgeting = "two start-up points a parameter, at most a third of the budget"
    uses_noise = True
    draws: ClassVar[int] = 10

    def _open(self, seed: int) -> None:
        self._torch: Any = library("torch")
        self._botorch: Any = library("botorch")
        self._gpytorch: Any = library("gpytorch")
        self._cube = Cube(self.space)
        self._design = 2 * self._cube.width
        if self.budget is not None:
            self._design = max(2, min(self._design, self.budget // 3))
        self._seed = seed
        self._regions = 0
        self._told_to_model: list[Observation] = []
        self._new_region()

    def _new_region(self) -> None:
        """Begin a trust region with a design of its own; a region forgets what was told before it [E19]."""
        self._length, self._successes, self._failures, self._best = FIRST, 0, 0, math.inf
        self._points: list[Array] = []
        self._values: list[float] = []
        self._members: list[Observation] = []
        engine = self._torch.quasirandom.SobolEngine(self._cube.width, scramble=True, seed=self._seed + self._regions)
        self._start_up: list[Array] = list(engine.draw(self._design).double().numpy())
        self._regions += 1

    def _candidate(self) -> tuple[Any, Configuration] | None:
        if self._start_up and len(self._values) < self._design:
            return None, self._cube.decode(self._start_up.pop(0))
        if len(self._values) < 2:
            return None
        try:
            chosen = self._thompson()
        except self._botorch.exceptions.ModelFittingError:
            return None
        return None, self._cube.decode(chosen)

    def _inform(self, token: Any, observation: Observation, value: float) -> None:
        if any(observation is known for known in self._told_to_model):
            return  # a candidate that repeats it
        self._told_to_model.append(observation)
        if len(self._values) >= self._design:
            self._resize(value)
        self._best = min(self._best, value)
        self._points.append(self._cube.encode(observation.configuration))
        self._values.append(value)
        self._members.append(observation)
        if self._length < SHORTEST:
            self._new_region()

    def _resize(self, value: float) -> None:
        """Double the region after successes in a row, halve it after failures in a row [E19, section 2]."""
        success = value < self._best - GAIN * abs(self._best)
        self._successes, self._failures = (self._successes + 1, 0) if success else (0, self._failures + 1)
        if self._successes == SUCCESSES:
            self._length, self._successes = min(2 * self._length, LONGEST), 0
        elif self._failures == max(4, self._cube.width):
            self._length, self._failures = self._length / 2, 0

    def _thompson(self) -> Array:
        """Return the candidate with the lowest value in a draw from the posterior, (width,)."""
        torch, width = self._torch, self._cube.width
        points = np.array(self._points)
        model = self._fitted(points)
        with torch.no_grad():
            centre = points[int(model.posterior(torch.as_tensor(points)).mean.argmax())]
        scales = model.covar_module.base_kernel.lengthscale.detach().numpy().ravel()
        weights = scales / np.exp(np.mean(np.log(scales)))  # their product is 1 [E19, section 2]
        low, high = (np.clip(centre + sign * weights * self._length / 2, 0.0, 1.0) for sign in (-1, 1))
        count = min(5000, max(2000, 200 * width))  # [T]
        engine = torch.quasirandom.SobolEngine(width, scramble=True, seed=int(np.random.randint(2**31)))
        drawn = low + (high - low) * engine.draw(count).double().numpy()
        moved = np.random.random((count, width)) <= min(1.0, MOVED / width)
        moved[np.arange(count), np.random.randint(width, size=count)] = True  # at least one coordinate
        candidates = torch.as_tensor(np.where(moved, drawn, centre))
        sampling = self._botorch.generation.MaxPosteriorSampling(model=model, replacement=False)
        with torch.no_grad(), self._gpytorch.settings.max_cholesky_size(math.inf):
            return np.asarray(sampling(candidates, num_samples=1).numpy()[0], dtype=np.float64)

    def _fitted(self, points: Array) -> Any:
        """Return a Gaussian process of the standardised negative values, fitted by maximum likelihood."""
        torch, gpytorch = self._torch, self._gpytorch
        values = np.array(self._values)
        deviation = float(values.std()) or 1.0
        interval = gpytorch.constraints.Interval
        kernel = gpytorch.kernels.MaternKernel(
            nu=2.5,
            ard_num_dims=points.shape[1],
            lengthscale_constraint=interval(0.005, 4.0),  # [T]
        )
        noise: dict[str, Any] = {
            "likelihood": gpytorch.likelihoods.GaussianLikelihood(noise_constraint=interval(5e-4, 0.2))
        }  # [E19]
        errors = known_errors(self._members)
        if errors is not None:
            variances = np.maximum((errors / deviation) ** 2, LEAST_VARIANCE)
            noise = {"train_Yvar": torch.as_tensor(variances)[:, None]}
        model = self._botorch.models.SingleTaskGP(
            torch.as_tensor(points),
            torch.as_tensor((values.mean() - values) / deviation)[:, None],
            covar_module=gpytorch.kernels.ScaleKernel(kernel),
            outcome_transform=None,
            **noise,
        )
        likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        with gpytorch.settings.max_cholesky_size(math.inf):
            self._botorch.fit.fit_gpytorch_mll(likelihood)
        return model
