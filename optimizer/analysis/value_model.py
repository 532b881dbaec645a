"""A model of the values that a search observed, which answers how two configurations differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.models.additive import AdditiveProcess, Array, Layout
from optimizer.models.surrogate import Encoder, one_thread
from optimizer.space import Configuration, SearchSpace
from optimizer.trial import Observation

MIN_CONFIGURATIONS = 5  # configurations with a value; with fewer there is no model


@dataclass(frozen=True)
class ValueModel:
    """An additive process on the logarithms of the values."""

    encoder: Encoder
    process: AdditiveProcess
    spread: float

    @classmethod
    def of(cls, space: SearchSpace, observations: Iterable[Observation]) -> ValueModel | None:
        """Fit the model; return None for fewer than 5 configurations with a value, or values that are not above 0."""
        known = [observation for observation in observations if observation.value is not None]
        if len({observation.configuration for observation in known}) < MIN_CONFIGURATIONS or any(
            (observation.value or 0.0) <= 0 for observation in known
        ):
            return None
        y = np.log([observation.value for observation in known if observation.value is not None])
        noise = np.array(
            [
                ((observation.standard_error or 0.0) / observation.value) ** 2
                for observation in known
                if observation.value is not None
            ]
        )
        encoder = Encoder(space)
        layout = Layout.of(space, encoder.columns, np.ones(len(space)))
        spread = float(np.std(y)) or 1.0
        x = encoder.encode(encoder.snap(encoder.units([observation.configuration for observation in known])))
        with one_thread():
            process = AdditiveProcess(layout, x, (y - float(np.mean(y))) / spread, noise / spread**2)
        return cls(encoder, process, spread)

    def expect(self, configurations: Sequence[Configuration]) -> Array:
        """Return the predicted mean of log(value), up to a constant, (n,)."""
        mean, _ = self.process.predict(self.encoder.encode(self.encoder.units(configurations)))
        return np.asarray(mean * self.spread)

    def difference(self, configurations: Sequence[Configuration], reference: Configuration) -> tuple[Array, Array]:
        """Return mean and standard deviation of log(value / the reference's value), both (n,)."""
        x = self.encoder.encode(self.encoder.units([*configurations, reference]))
        mean, deviation = self.process.difference(x[:-1], x[-1])
        return mean * self.spread, deviation * self.spread
