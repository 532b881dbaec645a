"""Measurement -> value, standard error, checks, and the statistics of the verdict."""

from framework.objective.evaluate import evaluate
from framework.objective.outcomes import best_of, constraints, keeps, measured, others, outcome, rank, worst_at
from framework.objective.rates import rates_of
from framework.objective.rates_verdict import compare_trials
from framework.objective.trial import drift_corrected, on_reference, standard_error, trial_value
from framework.objective.verdict import compare, compare_groups, coverage
from framework.objective.warmup import warmup_s

__all__ = [
    "best_of",
    "compare",
    "compare_groups",
    "compare_trials",
    "constraints",
    "coverage",
    "drift_corrected",
    "evaluate",
    "keeps",
    "measured",
    "on_reference",
    "others",
    "outcome",
    "rank",
    "rates_of",
    "standard_error",
    "trial_value",
    "warmup_s",
    "worst_at",
]
