"""A recorded study as a problem: measured configurations have their measured values, all others a forest's.

The model is scikit-learn's random forest on the logarithms of the values, as in Eggensperger, Hutter, Hoos &
Leyton-Brown, "Efficient benchmarking of hyperparameter optimizers via surrogates", AAAI 2015: none of the optimizers
here uses the same model, so that it favours none of them (``bo-rf`` comes near).  A forest never predicts less than the
best measured value: a replay shows how soon an optimizer gets as far as the study, not whether there is better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.errors import InvalidInput
from optimizer.models.surrogate import Encoder, one_thread
from optimizer.space import Configuration, SearchSpace, Value

MIN_VALUES = 10  # configurations with a value
TREES = 200


@dataclass(frozen=True)
class Result:
    """One recorded trial.  ``value``: None where it failed.  ``error``: standard error of log(value)."""

    values: Mapping[str, Value]
    value: float | None
    error: float | None = None


class Replay:
    """A Problem from a record.  ``explained``: R^2 of log(value) on trials that the trees had not seen (out of bag).

    Raises InvalidInput where fewer than 10 configurations have a value, or one is not above 0.
    """

    family = "recorded"

    def __init__(self, name: str, space: SearchSpace, results: Sequence[Result]) -> None:
        from sklearn.ensemble import RandomForestRegressor  # imported here: it takes a second

        self.name = name
        self.space = space
        measured: dict[Configuration, list[float]] = {}
        self._failed: set[Configuration] = set()
        for result in results:
            configuration = space.from_default(result.values)
            if result.value is None:
                self._failed.add(configuration)
            elif result.value > 0:
                measured.setdefault(configuration, []).append(math.log(result.value))
            else:
                raise InvalidInput(f"{name}: found a value of {result.value}; allowed: above 0")
        if len(measured) < MIN_VALUES or space.default() not in measured:
            raise InvalidInput(
                f"{name}: {len(measured)} configurations with a value; "
                f"a replay needs {MIN_VALUES}, the default among them"
            )
        self._failed -= measured.keys()
        self._measured = {configuration: float(np.mean(values)) for configuration, values in measured.items()}
        errors = [result.error for result in results if result.error]
        self._noise = float(np.median(errors)) if errors else 0.0
        self._encoder = Encoder(space)
        x = self._encoder.encode(self._encoder.units(list(self._measured)))
        y = np.array(list(self._measured.values()))
        with one_thread():
            forest = RandomForestRegressor(TREES, min_samples_leaf=2, oob_score=True, random_state=0, n_jobs=1)
            self._forest = forest.fit(x, y)
        self.explained = float(self._forest.oob_score_)

    @property
    def statement(self) -> str:
        """Description of the problem: which values are measured and which are predicted."""
        return (
            f"{self.name}: {len(self._measured)} measured configurations are answered as measured, all others by a "
            f"random forest that explains {max(0.0, self.explained):.0%} of the variance of trials it has not seen "
            "and never predicts below the best of them; noise as the record's standard errors"
        )

    def truth(self, configuration: Configuration) -> float | None:
        if configuration in self._failed:
            return None
        known = self._measured.get(configuration)
        if known is None:
            x = self._encoder.encode(self._encoder.units([configuration]))
            with one_thread():
                known = float(self._forest.predict(x)[0])
        return math.exp(known)

    def noise(self, configuration: Configuration) -> float:
        return self._noise

    def priors(self, configuration: Configuration) -> Mapping[str, float]:
        return {}
