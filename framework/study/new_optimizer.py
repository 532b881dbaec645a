"""The optimizer of a study, made from its plan and its decisions."""

from __future__ import annotations

from typing import Any

from framework.errors import InputError
from framework.model import StudyPlan
from framework.model.decisions import StudyDecisions
from framework.study.observations import modelled_points, transfer_prior
from optimizer.base import Optimizer
from optimizer.errors import OptimizerError
from optimizer.registry import check_options
from optimizer.registry import load as load_optimizer
from optimizer.space import Configuration, SearchSpace


def new_optimizer(plan: StudyPlan, decisions: StudyDecisions, space: SearchSpace) -> Optimizer:
    """Return an optimizer that was not asked yet.  Raises InputError for an unknown name or option."""
    try:
        kind = load_optimizer(plan.optimizer)
        check_options(kind, plan.optimizer_options)
        start = _start(plan, decisions, space)
        modelled = modelled_points(decisions.prior or (), space)
        if modelled and not kind.uses_simulator_prior:
            start, modelled = min(modelled, key=lambda point: point.log_ratio).configuration, []
        budget = max(1, plan.iterations)  # 0: a comparison only, which never asks
        given: dict[str, Any] = {"modelled": modelled} if modelled else {}
        elsewhere = transfer_prior(decisions.transfer, space)
        if elsewhere is not None and kind.uses_simulator_prior:
            given["prior"] = elsewhere
        elif elsewhere is not None:
            [start] = elsewhere.best(1)
        return kind(space, seed=plan.seed, budget=budget, start=start, **given, **plan.optimizer_options)
    except OptimizerError as error:
        raise InputError(str(error)) from error


def _start(plan: StudyPlan, decisions: StudyDecisions, space: SearchSpace) -> Configuration | None:
    """Return the configuration where the optimizer starts; None for a random design."""
    if decisions.initial is not None:
        initial = {name: value for name, value in decisions.initial.items() if name in space}
        return space.validate(space.canonical({**space.default(), **initial}))  # what was left out may follow otherwise
    return None if plan.initial == "random" else space.default()
