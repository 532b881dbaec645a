"""A placement, measured against what else one could do: a study of one suggestion with baselines beside it."""

from __future__ import annotations

from dataclasses import replace

from framework.model import Study, TuneRequest
from framework.placement.space import baselines
from framework.use_cases.studies import Tailor


def propose(tailor: Tailor, request: TuneRequest) -> Study:
    """The study of a request for a placement, not started yet.  Its verdict compares the suggestion, the load spread
    evenly and random placements with everything on all CPUs.  Raises InputError, MissingPrerequisite.
    """
    application = tailor.application(request.application)
    space = tailor.space(application, request, tailor.testbed_of(application, request))
    found = baselines(space, request.seed)
    return tailor.create(replace(request, rivals=tailor.profiling.write_baselines(application, found)))
