"""Routes of external ask and tell: configurations for clients that measure in a way of their own."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Request, Response

from framework.api import requests
from framework.api.access import Caller
from framework.api.dependencies import RUN, AppService, RunCaller
from framework.api.large_spaces import LARGE, ask_answer, json_bytes, tell_answer
from framework.api.requests import Ask, Heartbeat, IdempotencyHeader, NewExternal, Tell
from framework.api.service import Service
from framework.errors import InputError
from framework.model import Objective, Trial
from framework.objective import keeps
from framework.report.outcomes import front
from framework.study.external_session import objective_of
from optimizer.errors import OptimizerError
from optimizer.space import Parameter, SearchSpace

THREADS = 20  # of the 40 that all routes share: requests that wait for an optimizer leave some for the others
MOST_REMEMBERED = 10_000  # studies in the cache of sizes
JSON = "application/json"


class ExternalWork:
    """The threads of the routes below, and a cache of the studies' sizes, which never change."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.threads = CapacityLimiter(THREADS)
        self._sizes: OrderedDict[str, int] = OrderedDict()  # study -> its number of parameters

    async def parameters(self, study: str) -> int:
        """Return how many parameters the study has.  Raises NotFound."""
        if study not in self._sizes:
            sized = await to_thread.run_sync(self._service.study, study, limiter=self.threads)
            self._sizes[study] = len(sized.space["parameters"])
            if len(self._sizes) > MOST_REMEMBERED:
                self._sizes.popitem(last=False)
        return self._sizes[study]


async def work_of(request: Request) -> ExternalWork:
    """Return the threads and sizes of the application that answers."""
    work: ExternalWork = request.app.state.external_work
    return work


Work = Annotated[ExternalWork, Depends(work_of)]
router = APIRouter(prefix="/external", tags=["external"], dependencies=[RUN])


@router.post("", status_code=HTTPStatus.CREATED, response_model=dict[str, Any])
async def create(
    body: NewExternal, service: AppService, work: Work, caller: RunCaller, idempotency_key: IdempotencyHeader = None
) -> Response:
    """Create a study of parameters of your own.

    The same request with the same Idempotency-Key makes no second study.
    """
    make = partial(_created, service, body, caller, idempotency_key)
    if len(body.parameters) < LARGE:
        return await to_thread.run_sync(make, limiter=work.threads)
    making = service.large_spaces.making
    with making.waiting(caller.who):
        return await to_thread.run_sync(make, limiter=making.limiter)


# Answers are ready to be sent: to have them checked and encoded would take as long as to compute them.


@router.post("/{study}/ask", response_model=dict[str, Any])
async def ask(study: str, body: Ask, service: AppService, work: Work, caller: RunCaller) -> Response:
    """Lease configurations to measure; the list is empty when the budget or the space is used up.

    Fewer than ``count`` may come: the configurations of one answer have at most 20,000 values in all, and after two
    seconds those that are ready are returned, at least one.  Ask again.
    """
    size = await work.parameters(study)
    if size >= LARGE:
        answer = await service.large_spaces.ask(study, body, size, caller.who)
    else:
        answer = await to_thread.run_sync(ask_answer, service.external, study, body, size, limiter=work.threads)
    return Response(answer, media_type=JSON)


@router.post("/{study}/tell", response_model=dict[str, Any])
async def tell(study: str, body: Tell, service: AppService, work: Work, caller: RunCaller) -> Response:
    """Record results, all or none.  To tell a result again changes nothing; to tell another one is a conflict."""
    if await work.parameters(study) >= LARGE:
        answer = await service.large_spaces.tell(study, body, caller.who)
    else:
        answer = await to_thread.run_sync(tell_answer, service.external, study, body, limiter=work.threads)
    return Response(answer, media_type=JSON)


@router.post("/{study}/heartbeat")
def heartbeat(study: str, body: Heartbeat, service: AppService) -> dict[str, Any]:
    """Renew leases; the trials in ``lost`` have a result already, or were offered to another client."""
    renewed = service.external.heartbeat(study, body.trials, body.client, body.lease_s)
    return {"renewed": list(renewed), "lost": sorted(set(body.trials) - set(renewed))}


@router.get("/{study}")
def look(study: str, service: AppService) -> dict[str, Any]:
    """Show the best trial so far, and the Pareto set by value.

    The best is taken of the trials that keep the limits; where none does, it is the one that breaks them least.
    """
    store = service.store
    shown = store.get(study)
    objective = objective_of(shown.plan)
    best = store.numbered(study, [shown.best] if shown.best else [])
    trials = {trial.number: trial for trial in (store.trials(study) if objective.also else best)}
    return {
        "study": shown.id,
        "state": shown.state.value,
        "best": next((_shown(trial, objective) for trial in best), None),
        "front": [_shown(trials[point.trial], objective) for point in front(list(trials.values()), objective)],
    }


@router.post("/{study}/finish", status_code=HTTPStatus.NO_CONTENT)
async def finish(study: str, service: AppService, work: Work) -> None:
    """End a study: nothing more is asked."""
    await to_thread.run_sync(service.external.finish, study, limiter=work.threads)
    if await work.parameters(study) >= LARGE:
        await service.large_spaces.leave(study)


def _created(service: Service, body: NewExternal, caller: Caller, key: str | None) -> Response:
    """Make the study and answer with its id and default.  Raises InputError."""
    try:
        space = SearchSpace(_parameter(parameter) for parameter in body.parameters)
    except OptimizerError as error:
        raise InputError(f"parameters: {error}") from error
    prepared = partial(
        service.external.prepared,
        body.name,
        space.to_dict(),
        body.optimizer,
        body.budget,
        body.seed,
        dict(body.options),
        subject_to=body.subject_to,
        also=body.also,
    )
    study, new = service.create_once(caller, key, f"external {body.model_dump_json()}", prepared)
    answer = json_bytes({"study": study.id, "default": space.default().to_dict()})
    return Response(answer, HTTPStatus.CREATED if new else HTTPStatus.OK, media_type=JSON)


def _parameter(body: requests.Parameter) -> Parameter:
    group = body.group or (body.name.partition(".")[0] if "." in body.name else "")
    return Parameter(**{**body.model_dump(), "choices": tuple(body.choices), "group": group})


def _shown(trial: Trial, objective: Objective) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "value": trial.value,
        "quantities": dict(trial.quantities),
        "keeps_limits": keeps(trial, objective),
        "configuration": trial.configuration.to_dict(),
    }
