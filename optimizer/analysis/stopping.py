"""The gain that another trial is expected to bring, by the additive process on a search's observations.

A trial gains by how much it lowers the lowest posterior mean, which is what a search recommends: the knowledge gradient
(Frazier, Powell & Dayanik, INFORMS Journal on Computing 21(4) (2009)), where only the mean of the new point changes;
the largest over candidates.  Without noise it is the expected improvement.

A search whose next trial gains less than the noise of the final comparison cannot show that gain: stop where expected
improvement falls below a threshold (Nguyen, Gupta, Rana, Li & Venkatesh, ECML PKDD 2017), and take the threshold from
the noise of the estimate (Makarova et al., AutoML 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.analysis.fitted import Fitted
from optimizer.candidates import Neighbourhood
from optimizer.models.surrogate import one_thread
from optimizer.space.cube import spread

Array = NDArray[np.float64]

CANDIDATES = 300  # of each kind: near the best, nearer, and anywhere
CENTRES = 8  # candidates at which the second round starts
STEPS = (0.4, 0.1)  # of candidates near the best, in ranges of the parameters


@dataclass(frozen=True)
class ExpectedGain:
    """Gain that the best next trial is expected to bring, as a fraction of the best value; 0 where all is tried.

    It is a model's expectation of the best of many candidates, and larger than what trials gain on average.
    ``noise``: standard deviation of one measured value by the model, a fraction of the best value too.
    """

    gain: float
    noise: float


def expected_gain(model: Fitted) -> ExpectedGain | None:
    """Return the expected gain; None where no configuration keeps the measured constraints.

    It is a function of the model alone: candidates are drawn from a generator with a seed of its own.
    """
    if not model.kept.any():
        return None
    with one_thread():
        means = np.where(model.kept, model.process.means, np.inf)
        place = int(np.argmin(means))
        best = model.configurations[place]
        rng = np.random.default_rng([len(model.configurations), 23])
        noise = model.process.noise_variance + model.known_noise
        points, gain = _candidates(model, model.space.to_unit(best), float(means[place]), noise, rng)
    largest = 0.0
    known = set(model.configurations)
    for row in np.argsort(-gain, kind="stable"):
        configuration = model.space.from_unit(points[row])
        if configuration not in known and model.space.is_feasible(configuration):
            largest = float(gain[row])
            break
    deviation = model.spread * math.sqrt(noise)
    if model.log:
        return ExpectedGain(-math.expm1(-model.spread * largest), deviation)
    size = abs(model.centre + model.spread * float(means[place])) or 1.0
    return ExpectedGain(model.spread * largest / size, deviation / size)


def _candidates(
    model: Fitted, best: Array, lowest: float, noise: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return candidates (m, d) and their expected gains in the unit of the process, (m,); ``noise``: of a trial."""
    ordered = np.array([parameter.ordered for parameter in model.space.parameters])
    tied = [members.members for members in model.layout.sets]
    near = Neighbourhood(model.encoder, ~ordered, np.maximum(model.process.relevance, 0.05), tied).near
    points = np.concatenate(
        [
            *(near([best], step, CANDIDATES, rng) for step in STEPS),
            model.encoder.snap(spread(model.space, rng.random((CANDIDATES, len(model.space))))),
        ]
    )
    gain = _improvement(model, points, lowest, noise)
    first = points[np.argsort(-gain, kind="stable")[:CENTRES]]
    more = near(list(first), 0.5 * STEPS[0], CANDIDATES, rng)
    return np.concatenate([points, more]), np.concatenate([gain, _improvement(model, more, lowest, noise)])


def _improvement(model: Fitted, points: Array, lowest: float, noise: float) -> Array:
    from scipy.special import ndtr

    mean, known = model.process.predict(model.encoder.encode(points))
    # The posterior mean at a point moves by this deviation when a noisy value of it is told.
    deviation = known**2 / np.sqrt(known**2 + noise)
    z = (lowest - mean) / deviation
    return np.asarray(deviation * (z * ndtr(z) + np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)))
