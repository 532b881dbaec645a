"""A study's optimizer, as its plan and its decisions say."""

from __future__ import annotations

from typing import Any

from framework.errors import InputError
from framework.model import StudyPlan
from framework.model.decisions import StudyDecisions
from framework.study.observations import believed
from optimizer.base import Optimizer
from optimizer.errors import OptimizerError
from optimizer.registry import check_options
from optimizer.registry import load as load_optimizer
from optimizer.space import Configuration, SearchSpace


def new_optimizer(plan: StudyPlan, decisions: StudyDecisions, space: SearchSpace) -> Optimizer:
    """An optimizer that was asked nothing yet.  Raises InputError on an unknown name or option."""
    try:
        kind = load_optimizer(plan.optimizer)
        check_options(kind, plan.optimizer_options)
        start = _start(plan, decisions, space)
        modelled = believed(decisions.prior or (), space)
        if modelled and not kind.uses_simulator_prior:
            start, modelled = min(modelled, key=lambda point: point.log_ratio).configuration, []
        budget = max(1, plan.iterations)  # without a search it is never asked
        known: dict[str, Any] = {"modelled": modelled} if modelled else {}
        return kind(space, seed=plan.seed, budget=budget, start=start, **known, **plan.optimizer_options)
    except OptimizerError as error:
        raise InputError(str(error)) from error


def _start(plan: StudyPlan, decisions: StudyDecisions, space: SearchSpace) -> Configuration | None:
    """Where the optimizer starts: the default, a random design (None), or a given configuration."""
    if decisions.initial is not None:
        known = {name: value for name, value in decisions.initial.items() if name in space}
        return space.validate({**space.default(), **known})
    return None if plan.initial == "random" else space.default()
