"""The verdict of a study: is the best better than the default, and do fewer changes suffice?  Only fresh data count.

Arms are measured in groups of runs, one run of each arm in random order, so that a disturbance of the machine meets all
arms alike (measurement.md).  The recommendation is then made smaller: candidates that change less are compared with the
full recommendation.  The smallest whose log ratio to it has a 95 % upper bound below 5 % is taken, if it passes the
verdict against the default too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from framework.model import Objective, Purpose, StudyPlan, Trial, Verdict
from framework.model.study import TrialSpec
from framework.objective import compare_trials, constraints
from framework.ports.store import StudyStore
from framework.study.recorded_trials import RecordedTrials
from optimizer.space import Configuration, SearchSpace

VERDICT_SEED = 1000  # fresh arrivals, unseen by the search
MINIMAL_SEED = 3000
FULL = "full recommendation"


class FinalComparison:
    """Compares configurations by fresh trials.  ``measure``: runs one trial and records it in ``trials``."""

    def __init__(
        self,
        store: StudyStore,
        study: str,
        plan: StudyPlan,
        space: SearchSpace,
        objective: Objective,
        trials: RecordedTrials,
        measure: Callable[[TrialSpec], Trial],
    ) -> None:
        self._store = store
        self._study = study
        self._plan = plan
        self._default = space.default()
        self._objective = objective
        self._trials = trials
        self._measure = measure

    def verdict(self, best: Configuration) -> Verdict | None:
        """Compare default, best and the plan's rivals; record the verdict and return it, None without a difference."""
        same = self._is_default(best)
        if same and not self._plan.rivals:
            self._store.set_verdict(self._study, None, {})
            return None
        arms = {"default": self._default, "best": best}
        arms |= {name: Configuration({**self._default, **values}) for name, values in self._plan.rivals.items()}
        if same:
            del arms["best"]
        for pair in range(self._plan.pairs):
            self._group(pair, arms)
        measured = {label: self._arm(label, range(self._plan.pairs)) for label in arms}
        main = self._compared(measured["default"], measured["best"]) if "best" in measured else None
        rivals = {
            name: self._compared(measured[name], measured["best"]) for name in self._plan.rivals if "best" in measured
        }
        rivals |= {
            f"default to {name}": self._compared(measured["default"], measured[name]) for name in self._plan.rivals
        }
        self._record(main, rivals)
        return main

    def shrink(self, full: Configuration, candidates: Sequence[Configuration]) -> None:
        """Compare the candidates (the smallest first) with the full recommendation; record the one that replaces it."""
        if not candidates:
            return
        labels = [f"smaller {number + 1}" for number in range(len(candidates))]
        arms = {"full": full, **dict(zip(labels, candidates, strict=True))}
        pairs = range(self._plan.pairs)
        for pair in pairs:
            self._group(pair, arms, "minimal", MINIMAL_SEED)
        reference = self._arm("full", pairs, "minimal")
        for label, candidate in zip(labels, candidates, strict=True):
            compared = self._compared(reference, self._arm(label, pairs, "minimal"))
            if compared is not None and compared.no_worse == "no worse" and self._keeps_limits(label):
                self._confirm(label, candidate, compared)
                return

    def _confirm(self, label: str, candidate: Configuration, compared: Verdict) -> None:
        """Compare the smaller recommendation with the default on new pairs; record it as the best if it passes."""
        pairs = range(self._plan.pairs, 2 * self._plan.pairs)
        for pair in pairs:
            self._group(pair, {"default": self._default, "best": candidate})
        verdict = self._compared(self._arm("default", pairs), self._arm("best", pairs))
        if verdict is None or verdict.statement != "improvement":
            return
        before = self._store.get(self._study)
        rivals = {**before.rivals, FULL: compared, f"default to {FULL}": before.verdict}
        # Rivals were compared with the full recommendation.
        rivals = {f"{name} to full" if name in self._plan.rivals else name: result for name, result in rivals.items()}
        self._record(verdict, rivals)
        number = next(t.number for t in self._trials.finished("minimal") if t.label == label and t.value is not None)
        self._store.set_best(self._study, number)

    def _record(self, main: Verdict | None, rivals: Mapping[str, Verdict | None]) -> None:
        compared = {name: verdict for name, verdict in rivals.items() if verdict is not None}
        self._store.set_verdict(self._study, main, compared)

    def _group(
        self, pair: int, arms: Mapping[str, Configuration], purpose: Purpose = "verdict", first_seed: int = VERDICT_SEED
    ) -> None:
        """Run each arm that this group lacks, in random order."""
        done = {t.label for t in self._trials.finished(purpose) if t.pair == pair}
        labels = list(arms)
        np.random.default_rng([self._plan.seed, first_seed, pair]).shuffle(labels)
        for label in labels:
            if label not in done:
                self._measure(TrialSpec(arms[label], purpose, 1, first_seed + pair, pair=pair, label=label))

    def _arm(self, label: str, pairs: range, purpose: Purpose = "verdict") -> dict[int, Trial]:
        """Return group number -> trial of one arm, without those that have no value."""
        rows = [(t.pair, t) for t in self._trials.finished(purpose) if t.label == label and t.value is not None]
        return {pair: trial for pair, trial in rows if pair is not None and pair in pairs}

    def _compared(self, reference: Mapping[int, Trial], candidate: Mapping[int, Trial]) -> Verdict | None:
        return compare_trials(self._plan, reference, candidate)

    def _keeps_limits(self, label: str) -> bool:
        """Return whether the mean of each constraint over an arm's runs keeps its limit."""
        runs = [constraints(t, self._objective) for t in self._trials.finished("minimal") if t.label == label]
        return all(
            float(np.mean([run[name] for run in runs if name in run])) <= 0 for name in {n for r in runs for n in r}
        )

    def _is_default(self, configuration: Configuration) -> bool:
        """Return whether a configuration, of the whole or of the reduced space, is the default."""
        return all(configuration[name] == value for name, value in self._default.items())
