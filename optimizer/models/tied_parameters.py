"""Tied parameters: parameters of one name in several groups, whose effects are alike.

Forty services of ten kinds have many threads, heaps and pools of the same kinds, and the effect of a single one may be
smaller than the noise.  So the start-up design moves tied parameters by the same amount (``sampling.grouped_design``),
as in group screening: their effects add up.  The model has a function g for each set of tied parameters and the sum of
w g(value) over the members, again a Gaussian process; this module computes its features.

Sources: group screening: Watson, Technometrics 3 (1961); sums of a kernel over the members of a set: Gaertner, Flach,
Kowalczyk & Smola, ICML 2002; a process defined at knots, linear in between: Wilson & Nickisch, ICML 2015.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.space import Parameter, SearchSpace

Array = NDArray[np.float64]

ALONE = "alone"
"""Attribute of a parameter; not 0: it is not tied to others of its name.

Places have it: the effects of services in one place do not add up.
"""

KNOTS = 9
LENGTH = 0.37  # scale of g, in ranges of the set
ROOT5 = math.sqrt(5.0)


@dataclass(frozen=True)
class TiedParameters:
    """One set of tied parameters.

    ``members``: indices of the parameters; ``begins``: the first column of each in the encoding.  ``low``, ``span``:
    begin and length of each member's range as a part of the common range, (members,), in their scale.  ``special``:
    number of special values of each; ``choices``: columns of a choice, 1 for a boolean, 0 where ordered.
    """

    members: NDArray[np.int64]
    begins: NDArray[np.int64]
    low: Array
    span: Array
    special: int
    choices: int

    def units(self, at: Array) -> Array:
        """Return the members' unit coordinates, (n, members), for coordinates in the common range, (n,)."""
        return np.clip((at[:, None] - self.low) / self.span, 0.0, 1.0)

    def features(self, x: Array, weight: Array) -> Array:
        """Return features (n, k) of encoded x (n, columns); their products are the covariance of the sum of w g.

        ``weight``: w of each member; g has a variance of one.
        """
        if self.choices == 1:
            share = x[:, self.begins] @ weight
            return np.column_stack([weight.sum() - share, share])
        if self.choices:
            columns = self.begins[:, None] + np.arange(self.choices)
            return np.asarray(math.sqrt(2.0) * np.einsum("nmk,m->nk", x[:, columns], weight))
        flags = x[:, self.begins[:, None] + 1 + np.arange(self.special)]
        at = np.clip(self.low + self.span * x[:, self.begins], 0.0, 1.0) * (KNOTS - 1)
        knot = np.minimum(at.astype(np.int64), KNOTS - 2)  # the one below
        usual = weight * (1.0 - flags.sum(axis=2))
        above = usual * (at - knot)
        place = (knot + KNOTS * np.arange(len(x))[:, None]).ravel()
        weights: Array = np.bincount(place, (usual - above).ravel(), KNOTS * len(x)).astype(np.float64)
        weights[1:] += np.bincount(place, above.ravel(), KNOTS * len(x))[:-1]
        return np.concatenate([weights.reshape(len(x), KNOTS) @ _ROOT, np.einsum("nms,m->ns", flags, weight)], axis=1)


def tied_parameters(
    space: SearchSpace, columns: Sequence[int], kinds: Mapping[str, str] | None = None
) -> tuple[TiedParameters, ...]:
    """Divide all parameters into sets of one or more.

    ``columns``: number per parameter in the encoding.  ``kinds``: group -> kind of group, which tied parameters then
    have in common.
    """
    begins = np.concatenate([[0], np.cumsum(columns)[:-1]]).astype(np.int64)
    sets: dict[object, list[int]] = {}
    for number, parameter in enumerate(space.parameters):
        sets.setdefault(((kinds or {}).get(parameter.group), _tie_key(parameter)), []).append(number)
    return tuple(_tied(space, np.array(members), begins) for members in sets.values())


def _tie_key(parameter: Parameter) -> object:
    """Return the key that tied parameters have in common: the name without the group, and the kind of values."""
    if parameter.attributes.get(ALONE):
        return parameter.name
    return (
        parameter.name.removeprefix(f"{parameter.group}."),
        parameter.kind,
        parameter.scale,
        parameter.special,
        parameter.choices,
    )


def _tied(space: SearchSpace, members: NDArray[np.int64], begins: NDArray[np.int64]) -> TiedParameters:
    parameters = [space.parameters[number] for number in members]
    first = parameters[0]
    if not first.ordered:
        choices = 1 if first.kind == "boolean" else len(first.choices)
        return TiedParameters(members, begins[members], np.zeros(len(parameters)), np.ones(len(parameters)), 0, choices)
    ends = np.array([(float(parameter.low or 0.0), float(parameter.high or 0.0)) for parameter in parameters])
    if first.scale == "log":
        ends = np.log(ends)
    start, width = ends[:, 0].min(), max(float(np.ptp(ends)), 1e-12)
    low, span = (ends[:, 0] - start) / width, np.maximum((ends[:, 1] - ends[:, 0]) / width, 1e-12)
    return TiedParameters(members, begins[members], low, span, len(first.special), 0)


def _matern_root() -> Array:
    """Return the Cholesky factor of the Matern 5/2 covariance between the knots."""
    at = np.linspace(0.0, 1.0, KNOTS)
    r = np.abs(at[:, None] - at) / LENGTH
    return np.asarray(np.linalg.cholesky((1.0 + ROOT5 * r + 5.0 / 3.0 * r * r) * np.exp(-ROOT5 * r)))


_ROOT = _matern_root()
