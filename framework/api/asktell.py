"""External ask and tell: configurations for whoever measures in a way of their own."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from http import HTTPStatus
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Response

from framework.api import requests
from framework.api.access import Caller
from framework.api.asking import LARGE, MADE_AT_ONCE, MOST_MADE, MOST_MADE_OF_ONE, Turns, asked, encoded, told
from framework.api.requests import Ask, Heartbeat, IdempotencyHeader, NewExternal, Tell
from framework.api.service import Service
from framework.errors import InputError
from framework.model import Objective, Trial
from framework.objective import keeps
from framework.report.outcomes import front
from framework.study.external_session import objective_of
from optimizer.errors import OptimizerError
from optimizer.space import Parameter, SearchSpace

THREADS = 20  # of the 40 that routes share: those who wait for an optimizer leave the others some
MOST_REMEMBERED = 10_000  # studies
JSON = "application/json"


def router(service: Service) -> APIRouter:
    """The routes below /v1/external."""
    runs = Depends(service.access.needs("run"))
    routes = APIRouter(prefix="/external", tags=["external"], dependencies=[runs])
    external, threads = service.external, CapacityLimiter(THREADS)
    making = Turns(MADE_AT_ONCE, MOST_MADE, MOST_MADE_OF_ONE, "studies of large spaces")

    sizes: OrderedDict[str, int] = OrderedDict()

    async def parameters(study: str) -> int:
        """How many the study has; that never changes.  Raises NotFound."""
        if study not in sizes:
            sizes[study] = len((await to_thread.run_sync(service.study, study, limiter=threads)).space["parameters"])
            if len(sizes) > MOST_REMEMBERED:
                sizes.popitem(last=False)
        return sizes[study]

    @routes.post("", status_code=HTTPStatus.CREATED, response_model=dict[str, Any])
    async def create(body: NewExternal, caller: Caller = runs, idempotency_key: IdempotencyHeader = None) -> Response:
        """A study of parameters of your own.

        With an Idempotency-Key, sending the same again makes no second one.
        """
        act = partial(created, body, caller, idempotency_key)
        if len(body.parameters) < LARGE:
            return await to_thread.run_sync(act, limiter=threads)
        with making.waiting(caller.who):
            return await to_thread.run_sync(act, limiter=making.limiter)

    def created(body: NewExternal, caller: Caller, key: str | None) -> Response:
        """The answer.  Raises InputError."""
        try:
            space = SearchSpace(_parameter(one) for one in body.parameters)
        except OptimizerError as error:
            raise InputError(f"parameters: {error}") from error
        prepared = partial(
            external.prepared,
            body.name,
            space.to_dict(),
            body.optimizer,
            body.budget,
            body.seed,
            dict(body.options),
            subject_to=body.subject_to,
            also=body.also,
        )
        study, new = service.once(caller, key, f"external {body.model_dump_json()}", prepared)
        answer = encoded({"study": study.id, "default": space.default().to_dict()})
        return Response(answer, HTTPStatus.CREATED if new else HTTPStatus.OK, media_type=JSON)

    # Answers are ready to be sent: to have them checked and encoded would take as long as to find them.

    @routes.post("/{study}/ask", response_model=dict[str, Any])
    async def ask(study: str, body: Ask, caller: Caller = runs) -> Response:
        """Configurations to measure, leased; an empty list when the budget or the space is used up.

        Fewer than ``count`` may come: at most so many that they have 20,000 values together, and no more once two
        seconds went by, but at least one.  Ask again.
        """
        size = await parameters(study)
        if size >= LARGE:
            answer = await service.asking.ask(study, body, size, caller.who)
        else:
            answer = await to_thread.run_sync(asked, external, study, body, size, limiter=threads)
        return Response(answer, media_type=JSON)

    @routes.post("/{study}/tell", response_model=dict[str, Any])
    async def tell(study: str, body: Tell, caller: Caller = runs) -> Response:
        """Results, all or none; telling the same again changes nothing, telling another result is a conflict."""
        if await parameters(study) >= LARGE:
            answer = await service.asking.tell(study, body, caller.who)
        else:
            answer = await to_thread.run_sync(told, external, study, body, limiter=threads)
        return Response(answer, media_type=JSON)

    @routes.post("/{study}/heartbeat")
    def heartbeat(study: str, body: Heartbeat) -> dict[str, Any]:
        """Renew leases; ``lost`` were offered to somebody else, or are told."""
        kept = external.heartbeat(study, body.trials, body.client, body.lease_s)
        return {"renewed": list(kept), "lost": sorted(set(body.trials) - set(kept))}

    @routes.get("/{study}")
    def look(study: str) -> dict[str, Any]:
        """The best so far: of what keeps the limits, else what breaks them least; and the Pareto set, by value."""
        store = service.store
        found = store.get(study)
        objective = objective_of(found.plan)
        best = store.numbered(study, [found.best] if found.best else [])
        trials = {one.number: one for one in (store.trials(study) if objective.also else best)}
        return {
            "study": found.id,
            "state": found.state.value,
            "best": next((_shown(one, objective) for one in best), None),
            "front": [_shown(trials[one.trial], objective) for one in front(list(trials.values()), objective)],
        }

    @routes.post("/{study}/finish", status_code=HTTPStatus.NO_CONTENT)
    async def finish(study: str) -> None:
        """Nothing more is asked."""
        await to_thread.run_sync(external.finish, study, limiter=threads)
        if await parameters(study) >= LARGE:
            await service.asking.leave(study)

    return routes


def _parameter(asked: requests.Parameter) -> Parameter:
    group = asked.group or (asked.name.partition(".")[0] if "." in asked.name else "")
    return Parameter(**{**asked.model_dump(), "choices": tuple(asked.choices), "group": group})


def _shown(trial: Trial, objective: Objective) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "value": trial.value,
        "quantities": dict(trial.quantities),
        "keeps_limits": keeps(trial, objective),
        "configuration": trial.configuration.to_dict(),
    }
