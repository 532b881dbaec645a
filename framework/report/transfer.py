"""Effects that a study took over from studies of other applications, and how far its own measurements agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from framework.model import Study, Trial
from framework.study.observations import searched_space, transfer_prior, valued_observations
from optimizer.errors import OptimizerError
from optimizer.models.effects import own_name
from optimizer.models.simulator_prior import fitted_rho
from optimizer.models.surrogate import Encoder
from optimizer.models.transfer_prior import TransferPrior
from optimizer.registry import load
from optimizer.space import SearchSpace


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Effects from one study.  ``parameters``: type of server -> names of its parameters that are tuned here too."""

    study: str
    application: str
    parameters: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TransferUse:
    """Effects from other studies.

    ``learns``: whether the optimizer learns from them; others start at the best that they promise.  ``weight``: factor
    by which measurements so far multiply them, from 0 (not confirmed) to 1.5; None before there are two of them.
    """

    sources: tuple[TakenOver, ...]
    learns: bool
    weight: float | None

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences that say what was taken over from each source, and with which weight."""
        taken = [
            f"taken over from study {source.study} of {source.application}: "
            + "; ".join(f"{server}: {', '.join(names)}" for server, names in source.parameters.items())
            for source in self.sources
        ]
        if not self.learns:
            return (*taken, "the optimizer does not learn from other applications; it started at the best they promise")
        if self.weight is None:
            return tuple(taken)
        return (
            *taken,
            f"what was taken over has the weight {self.weight:.2f} now (1: as there, 0: not confirmed here)",
        )


def transfer_use(study: Study, trials: Sequence[Trial]) -> TransferUse | None:
    """Return what a study took over; None where it was not asked to."""
    transfer = study.decisions.transfer
    if transfer is None:
        return None
    space = searched_space(SearchSpace.from_dict(study.space), study.decisions.reduction)
    prior = transfer_prior(transfer, space)
    used = set(prior.parameters) if prior is not None else set()
    here: dict[str, dict[str, None]] = {}
    for parameter in space.parameters:
        if parameter.name in used:
            here.setdefault(transfer.types[parameter.group], {})[own_name(parameter)] = None
    sources = []
    for source in transfer.sources:
        known = {(effect.server, effect.parameter) for effect in source.effects}
        shared = {server: tuple(name for name in names if (server, name) in known) for server, names in here.items()}
        taken = {server: names for server, names in shared.items() if names}
        sources.append(TakenOver(source.study, source.application, taken))
    return TransferUse(tuple(sources), _learns(study.plan.optimizer), _weight(study, trials, space, prior))


def _learns(optimizer: str) -> bool:
    with suppress(OptimizerError):  # a plug-in that is gone: nobody knows
        return load(optimizer).uses_simulator_prior
    return True


def _weight(study: Study, trials: Sequence[Trial], space: SearchSpace, prior: TransferPrior | None) -> float | None:
    """Return the factor that the measured values give the prior mean, as ``tailor`` computes it for its next ask."""
    valued = [observation for _, observation in valued_observations(study, trials, space)]
    known = [(observation.configuration, observation.value) for observation in valued if (observation.value or 0) > 0]
    if prior is None or len({configuration for configuration, _ in known}) < 2:
        return None
    configurations = [configuration for configuration, _ in known]
    logarithms = np.log([value for _, value in known if value is not None])
    encoder = Encoder(space)
    return fitted_rho(prior.at(encoder.encode(encoder.units(configurations))), logarithms, prior.expected_rho)
