"""The model of a study's search, whichever optimizer made it: its fit, and what another trial would gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from framework.model import Study, Trial
from framework.study.observations import searched_space, valued_observations
from optimizer.analysis.fitted import Fitted, fitted
from optimizer.analysis.model_fit import ModelFit, model_fit
from optimizer.analysis.stopping import expected_gain
from optimizer.space import SearchSpace
from optimizer.trial import Observation

# Chosen on the development problems (experiments/bench/stopping).
WORTH = 0.25  # part of the noise that a trial has to gain
LEAST_TRIALS = 10  # of a search before it may end


@dataclass(frozen=True, slots=True)
class Outlook:
    """The prospects of another trial.  ``gain``: expected by the model, as a fraction of the best value.

    ``noise``: standard error of the comparison that would have to show it, the verdict's; without a verdict, that of a
    trial's value.  Also a fraction.  ``trial_s``: mean duration of a trial [s]; None where it is unknown.
    """

    gain: float
    noise: float
    trial_s: float | None

    @property
    def worth_a_trial(self) -> bool:
        """Whether another trial is worth its time: it gains more than a quarter of the noise that would hide it."""
        return self.gain >= WORTH * self.noise


@dataclass(frozen=True, slots=True)
class SearchModel:
    """``fit``: predictions of the configurations' values without them; ``trials``: the first trial of each of them.

    ``outlook``: None where no configuration keeps the study's limits.
    """

    fit: ModelFit
    trials: tuple[int, ...]
    outlook: Outlook | None


def search_model(study: Study, trials: Sequence[Trial]) -> SearchModel | None:
    """Return the model of a study; None for fewer than 8 or more than 500 configurations, or equal values."""
    space = searched_space(SearchSpace.from_dict(study.space), study.decisions.reduction)
    valued = valued_observations(study, trials, space)
    model = fitted(space, [observation for _, observation in valued])
    if model is None:
        return None
    numbers: dict[str, int] = {}
    for trial, observation in valued:
        numbers.setdefault(observation.configuration.key(), trial.number)
    return SearchModel(
        model_fit(model),
        tuple(numbers[configuration.key()] for configuration in model.configurations),
        _outlook(model, trials, study.plan.pairs),
    )


def outlook(
    space: SearchSpace, observations: Sequence[Observation], trials: Sequence[Trial], pairs: int
) -> Outlook | None:
    """Return the prospects of another trial; None where the model cannot say (see ``search_model``).

    ``trials``: of the study, for the noise of its verdict of ``pairs``.
    """
    model = fitted(space, observations)
    return None if model is None else _outlook(model, trials, pairs)


def _outlook(model: Fitted, trials: Sequence[Trial], pairs: int) -> Outlook | None:
    gain = expected_gain(model)
    if gain is None:
        return None
    noise = _comparison_noise(trials, pairs)
    durations = [trial.phases["total"] for trial in trials if trial.purpose == "search" and "total" in trial.phases]
    trial_s = sum(durations) / len(durations) if durations else None
    return Outlook(gain.gain, gain.noise if noise is None else noise, trial_s)


def _comparison_noise(trials: Sequence[Trial], pairs: int) -> float | None:
    """Return the standard error of the log ratio of ``pairs`` repetitions of each arm, from that of the last trial.

    Without pairs: of a trial's value.  None where no trial has an error.  The error of a trial comes from the spread
    between repetitions, pooled over the study, so that the last one knows most.
    """
    for trial in reversed(trials):
        repetitions = len({measurement.repetition for measurement in trial.measurements if not measurement.invalid})
        if trial.standard_error and trial.purpose in ("default", "search", "drift"):
            return trial.standard_error * (math.sqrt(2.0 * repetitions / pairs) if pairs and repetitions else 1.0)
    return None
