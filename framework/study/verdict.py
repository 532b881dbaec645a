"""The verdict of a study: is the best better than the default, and do fewer changes suffice?  Only fresh data count.

Arms are measured in groups of runs, one run of each arm in random order, so that a disturbance of the machine meets all
arms alike (measurement.md).

The small recommendation (the few changes that a model of the trials misses) is an arm beside the full one.  Each change
has to earn its place: the small one is taken unless fresh runs show that it is worse than the full one, or only the
full one improves on the default.  Each risky change of it has an arm without that change, and goes back to the default
unless the difference is shown.  The small recommendation is named before its runs, so that they can be its verdict.
The full one, if they speak for it, is compared with the default in new groups: a choice of two claims twice as often.

After an improvement, further candidates that change less are compared with the recommendation.  The smallest whose log
ratio to it has a 95 % upper bound below 5 % is taken, if it passes the verdict against the default too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from framework.model import Objective, Purpose, StudyPlan, Trial, Verdict
from framework.model.decisions import ExpectedChange, SmallRecommendation
from framework.model.study import TrialSpec
from framework.objective import compare_trials, constraints
from framework.ports.store import StudyStore
from framework.study.recorded_trials import RecordedTrials
from optimizer.space import Configuration, SearchSpace

VERDICT_SEED = 1000  # fresh arrivals, unseen by the search
MINIMAL_SEED = 3000
FULL = "full recommendation"
SMALL = "small recommendation"
WITHOUT = "without "


class FinalComparison:
    """Compares configurations by fresh trials.

    ``measure``: runs groups of trials, each group in its order and on one testbed, and records them in ``trials``; what
    is there already is not measured again.
    """

    def __init__(
        self,
        store: StudyStore,
        study: str,
        plan: StudyPlan,
        space: SearchSpace,
        objective: Objective,
        trials: RecordedTrials,
        measure: Callable[[Sequence[Sequence[TrialSpec]]], None],
    ) -> None:
        self._store = store
        self._study = study
        self._plan = plan
        self._space = space
        self._default = space.default()
        self._objective = objective
        self._trials = trials
        self._measure = measure
        self._pairs_done = plan.pairs  # number of the verdict's pairs so far

    def verdict(
        self, best: Configuration, small: SmallRecommendation | None = None
    ) -> tuple[Verdict | None, Configuration]:
        """Compare default, best and the plan's rivals; record the verdict, and return it with what is recommended.

        ``small``: a choice beside the best.  The verdict is None without a difference to the default.
        """
        same = self._is_default(best)
        if same and not self._plan.rivals:
            self._store.set_verdict(self._study, None, {})
            return None, best
        arms = {"default": self._default, "best": best}
        arms |= {name: Configuration({**self._default, **values}) for name, values in self._plan.rivals.items()}
        if same:
            del arms["best"]
        if small is not None:
            arms |= {"best": Configuration(small.full), SMALL: Configuration(small.values)}
            arms |= {without(change): self._reset(arms[SMALL], change.names) for change in _risky(small)}
        self._groups(range(self._plan.pairs), arms)
        measured = {label: self._arm(label, range(self._plan.pairs)) for label in arms}
        main = self._compared(measured["default"], measured["best"]) if "best" in measured else None
        self._record(main, self._rivals(measured, "best" if "best" in measured else None))
        return (main, best) if small is None or main is None else self._settled(small, arms, measured, best, main)

    def _rivals(self, measured: Mapping[str, Mapping[int, Trial]], best: str | None) -> dict[str, Verdict | None]:
        """Compare the plan's rivals with an arm and with the default."""
        rivals = {name: self._compared(measured[name], measured[best]) for name in self._plan.rivals if best}
        return rivals | {
            f"default to {name}": self._compared(measured["default"], measured[name]) for name in self._plan.rivals
        }

    def _settled(
        self,
        small: SmallRecommendation,
        arms: Mapping[str, Configuration],
        measured: Mapping[str, Mapping[int, Trial]],
        searched: Configuration,
        full: Verdict,
    ) -> tuple[Verdict | None, Configuration]:
        """Record the small or the full recommendation as the best, without the risky changes that show no gain.

        ``searched``: the best of the search; ``full``: the full recommendation compared with the default.
        """
        alone = {
            without(change): self._compared(measured[without(change)], measured[SMALL]) for change in _risky(small)
        }
        refused = [name for change in _risky(small) if not _improves(alone[without(change)]) for name in change.names]
        rest = {label: self._reset(arms[label], refused) for label in (SMALL, "best")}
        few = next((label for label in (SMALL, *alone, "best") if arms[label] == rest[SMALL]), None)
        others = {f"default to {FULL}": full, **alone}
        if few is None or self._is_default(rest[SMALL]):
            return self._chosen_late(rest[SMALL], others)
        gained, to_full = (self._compared(measured[label], measured[few]) for label in ("default", "best"))
        if (
            gained is not None
            and to_full is not None
            and to_full.statement != "worse"
            and (gained.statement == "improvement" or full.statement != "improvement")
            and self._keeps_limits(few, "verdict")
        ):
            self._record(gained, {FULL: to_full, **others, **self._rivals(measured, few)})
            self._set_best(few)
            return gained, arms[few]
        others |= {SMALL: self._compared(measured[few], measured["best"]), f"default to {SMALL}": gained}
        if self._space.is_feasible(rest["best"]) and (refused or full.statement == "improvement"):
            return self._chosen_late(rest["best"], others)
        del others[f"default to {FULL}"]  # it is the verdict
        self._record(full, {**others, **self._rivals(measured, "best")})
        if any(searched[name] != value for name, value in arms["best"].items()):
            self._set_best("best")
        return full, arms["best"]

    def _chosen_late(
        self, rest: Configuration, others: Mapping[str, Verdict | None]
    ) -> tuple[Verdict | None, Configuration]:
        """Compare what is left of a recommendation with the default on new pairs, and record it as the best."""
        if self._is_default(rest):
            self._record(None, others)
            self._store.set_best(self._study, self._trials.finished("default")[-1].number)
            return None, rest
        verdict = self._on_new_pairs(rest)
        self._record(verdict, others)
        self._set_best("best", first=self._pairs_done - self._plan.pairs)
        return verdict, rest

    def _on_new_pairs(self, candidate: Configuration) -> Verdict | None:
        """Compare a configuration with the default on pairs that no decision was taken from."""
        pairs = range(self._pairs_done, self._pairs_done + self._plan.pairs)
        self._pairs_done = pairs.stop
        self._groups(pairs, {"default": self._default, "best": candidate})
        return self._compared(self._arm("default", pairs), self._arm("best", pairs))

    def _reset(self, configuration: Configuration, names: Iterable[str]) -> Configuration:
        """Return a configuration with some parameters, and those without a meaning then, at their defaults."""
        return self._space.canonical(configuration.replace({name: self._default[name] for name in names}))

    def _set_best(self, label: str, first: int = 0) -> None:
        """Record the first valued trial of an arm of the verdict, from pair ``first`` on, as the study's best."""
        rows = (t for t in self._trials.of_pairs("verdict") if t.label == label and t.value is not None)
        number = next((t.number for t in rows if t.pair is not None and t.pair >= first), None)
        if number is not None:
            self._store.set_best(self._study, number)

    def shrink(self, full: Configuration, candidates: Sequence[Configuration]) -> None:
        """Compare the candidates (the smallest first) with the full recommendation; record the one that replaces it."""
        if not candidates:
            return
        labels = [f"smaller {number + 1}" for number in range(len(candidates))]
        arms = {"full": full, **dict(zip(labels, candidates, strict=True))}
        pairs = range(self._plan.pairs)
        self._groups(pairs, arms, "minimal", MINIMAL_SEED)
        reference = self._arm("full", pairs, "minimal")
        for label, candidate in zip(labels, candidates, strict=True):
            compared = self._compared(reference, self._arm(label, pairs, "minimal"))
            if compared is not None and compared.no_worse == "no worse" and self._keeps_limits(label, "minimal"):
                self._confirm(label, candidate, compared)
                return

    def _confirm(self, label: str, candidate: Configuration, compared: Verdict) -> None:
        """Compare the smaller recommendation with the default on new pairs; record it as the best if it passes."""
        verdict = self._on_new_pairs(candidate)
        if verdict is None or verdict.statement != "improvement":
            return
        before = self._store.get(self._study)
        larger = SMALL if FULL in before.rivals else FULL  # what the candidate was compared with
        # Others were compared with the larger recommendation.
        known = {*self._plan.rivals, FULL, SMALL}
        rivals = {f"{name} to {larger}" if name in known else name: result for name, result in before.rivals.items()}
        self._record(verdict, {**rivals, larger: compared, f"default to {larger}": before.verdict})
        number = next(t.number for t in self._trials.finished("minimal") if t.label == label and t.value is not None)
        self._store.set_best(self._study, number)

    def _record(self, main: Verdict | None, rivals: Mapping[str, Verdict | None]) -> None:
        compared = {name: verdict for name, verdict in rivals.items() if verdict is not None}
        self._store.set_verdict(self._study, main, compared)

    def _groups(
        self,
        pairs: range,
        arms: Mapping[str, Configuration],
        purpose: Purpose = "verdict",
        first_seed: int = VERDICT_SEED,
    ) -> None:
        """Measure groups of one run of each arm, in random order."""
        groups = []
        for pair in pairs:
            labels = list(arms)
            np.random.default_rng([self._plan.seed, first_seed, pair]).shuffle(labels)
            groups.append(
                [TrialSpec(arms[label], purpose, 1, first_seed + pair, pair=pair, label=label) for label in labels]
            )
        self._measure(groups)

    def _arm(self, label: str, pairs: range, purpose: Purpose = "verdict") -> dict[int, Trial]:
        """Return group number -> trial of one arm, without those that have no value."""
        rows = [(t.pair, t) for t in self._trials.of_pairs(purpose) if t.label == label and t.value is not None]
        return {pair: trial for pair, trial in rows if pair is not None and pair in pairs}

    def _compared(self, reference: Mapping[int, Trial], candidate: Mapping[int, Trial]) -> Verdict | None:
        return compare_trials(self._plan, reference, candidate)

    def _keeps_limits(self, label: str, purpose: Purpose) -> bool:
        """Return whether the mean of each constraint over an arm's runs keeps its limit."""
        runs = [constraints(t, self._objective) for t in self._trials.of_pairs(purpose) if t.label == label]
        return all(
            float(np.mean([run[name] for run in runs if name in run])) <= 0 for name in {n for r in runs for n in r}
        )

    def _is_default(self, configuration: Configuration) -> bool:
        """Return whether a configuration, of the whole or of the reduced space, is the default."""
        return all(configuration[name] == value for name, value in self._default.items())


def without(change: ExpectedChange) -> str:
    """Return the label of the arm without a change: its first parameter is in no other change."""
    return f"{WITHOUT}{change.names[0]}"


def _risky(small: SmallRecommendation) -> list[ExpectedChange]:
    return [change for change in small.changes if change.risk != "none"]


def _improves(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.statement == "improvement"
