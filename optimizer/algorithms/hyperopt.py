"""Simulated annealing and the tree-structured Parzen estimator, both from hyperopt.

hyperopt's algorithms are functions of the trials so far and of a seed, which fits this library's interface: the trials
are rebuilt from the observations at each ask.

Sources: Bergstra, Bardenet, Bengio & Kegl, NIPS 2011 (TPE); hyperopt's ``anneal`` (Bergstra, Yamins & Cox, ICML 2013).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from optimizer.base import Optimizer, Option
from optimizer.models.surrogate import worst_for_failed
from optimizer.sampling import design_size, unseen
from optimizer.space import Configuration, Parameter
from optimizer.space.cube import from_cube, to_cube

_DRAWS = 20  # repeated or infeasible suggestions after which a uniform draw is suggested


class _Hyperopt(Optimizer):
    """Adapter: ordered parameters are uniform on the unit interval (in their scale), the others are choices."""

    uses_failures = True
    _domain: Any = None

    @abstractmethod
    def _propose(self, trials: Any, number: int, seed: int) -> list[Any]:
        """Return hyperopt's own suggestion for trial ``number``."""

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        trials = self._trials()
        seen = self.seen
        for _ in range(_DRAWS):
            [document] = self._propose(trials, len(trials.trials), int(rng.integers(2**31)))
            drawn = document["misc"]["vals"]
            point = [_coordinate(parameter, drawn[parameter.name][0]) for parameter in self.space.parameters]
            configuration = from_cube(self.space, point)
            if configuration not in seen and self.space.is_feasible(configuration):
                return configuration, f"hyperopt, from {len(trials.trials)} trials"
        return unseen(self.space, rng, seen), "uniform: hyperopt suggests nothing new"

    def _trials(self) -> Any:
        """Return the observations as hyperopt's trials; failed ones have the worst value told."""
        from hyperopt import Trials
        from hyperopt.base import JOB_STATE_DONE, STATUS_OK

        told = worst_for_failed(self.observations)
        numbers = list(range(len(told)))
        points = [to_cube(self.space, observation.configuration) for observation, _ in told]
        labels = self.space.names
        miscs = [
            {
                "tid": number,
                "cmd": None,
                "idxs": {label: [number] for label in labels},
                "vals": {
                    parameter.name: [_drawn(parameter, coordinate)]
                    for parameter, coordinate in zip(self.space.parameters, point.tolist(), strict=True)
                },
            }
            for number, point in enumerate(points)
        ]
        results = [{"status": STATUS_OK, "loss": value} for _, value in told]
        trials = Trials()
        documents = trials.new_trial_docs(numbers, [None] * len(told), results, miscs)
        for document in documents:
            document["state"] = JOB_STATE_DONE
        if documents:
            trials.insert_trial_docs(documents)
        trials.refresh()
        return trials

    def domain(self) -> Any:
        """Return the space as hyperopt's domain; it is built once, since that takes longer than a suggestion."""
        if self._domain is None:
            from hyperopt import hp
            from hyperopt.base import Domain

            described = {
                parameter.name: hp.uniform(parameter.name, 0.0, 1.0)
                if parameter.ordered
                else hp.choice(parameter.name, list(parameter.choices))
                for parameter in self.space.parameters
            }
            self._domain = Domain(lambda _: 0.0, described)
        return self._domain


class Annealing(_Hyperopt):
    """A neighbour of a good configuration, each parameter from a range around it that shrinks with every trial."""

    name = "sa"
    summary = "simulated annealing: neighbours of good configurations, in ranges that shrink"
    source = "hyperopt's anneal; Bergstra, Yamins & Cox 2013 (ICML); idea: Kirkpatrick, Gelatt & Vecchi 1983 (Science)"
    suits = "smooth spaces of few parameters; cheap"
    budgeting = "none: ranges shrink with the number of trials"
    options_known: ClassVar[Mapping[str, Option]] = {
        "avg_best_idx": Option(2.0, "mean rank of the configuration whose neighbour is drawn", low=1, high=100),
        "shrink_coef": Option(0.1, "after T trials a range is 1 / (1 + T * this) of the whole", low=0, high=10),
    }

    def _propose(self, trials: Any, number: int, seed: int) -> list[Any]:
        from hyperopt import anneal

        given = {name: float(value) for name, value in self.options.items()}
        return list(anneal.suggest([number], self.domain(), trials, seed, **given))


class TPE(_Hyperopt):
    """Densities of good and of other configurations; the candidate where their ratio is largest.

    hyperopt begins with 20 random trials whatever the budget; here it is at most a third of the budget.
    """

    name = "tpe"
    summary = "tree-structured Parzen estimator"
    source = "Bergstra, Bardenet, Bengio & Kegl 2011 (NIPS 24), section 4; hyperopt's implementation"
    suits = "long studies with choices and conditions"
    budgeting = "random start-up trials: one more than there are parameters, at least 5, at most a third of the budget"
    options_known: ClassVar[Mapping[str, Option]] = {
        "n_startup_jobs": Option(
            0, "random trials to begin with; 0: derived from the budget", "integer", low=0, high=1000
        ),
        "n_ei_candidates": Option(24, "candidates of which the best is suggested", "integer", low=1, high=10_000),
        "gamma": Option(0.25, "good are the best gamma * sqrt(trials)", low=0.01, high=10),
        "prior_weight": Option(1.0, "weight of the uniform prior against an observation", low=0.001, high=100),
    }

    def _propose(self, trials: Any, number: int, seed: int) -> list[Any]:
        from hyperopt import tpe

        startup = int(self.options["n_startup_jobs"]) or design_size(len(self.space), self.budget)
        return list(
            tpe.suggest(
                [number],
                self.domain(),
                trials,
                seed,
                prior_weight=float(self.options["prior_weight"]),
                n_startup_jobs=startup,
                n_EI_candidates=int(self.options["n_ei_candidates"]),
                gamma=float(self.options["gamma"]),
                verbose=False,
            )
        )


def _drawn(parameter: Parameter, coordinate: float) -> float | int:
    return coordinate if parameter.ordered else int(coordinate * len(parameter.choices))


def _coordinate(parameter: Parameter, drawn: Any) -> float:
    return float(drawn) if parameter.ordered else (int(drawn) + 0.5) / len(parameter.choices)
