"""Routes of plans of machines: make one, list them, show one; nothing is measured or deployed by them."""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from framework.api.dependencies import READ, AppService, ReadCaller, RunCaller
from framework.api.requests import NewPlan
from framework.config.checked import check
from framework.config.document import Document
from framework.config.machine_catalogue import shipped
from framework.config.need_file import NeedFile
from framework.config.node_file import load_node
from framework.errors import FieldError, FileError, NotFound, UnknownName
from framework.model.capacity import Interval, Need, ScalingPoint
from framework.model.node_measurement import NodeMeasurement
from framework.use_cases.capacity import PlanRequest

LISTED = 50
JSON = "application/json"

router = APIRouter(tags=["plans"])


@router.post("/plans", status_code=HTTPStatus.CREATED, response_model=dict[str, Any])
async def make(body: NewPlan, service: AppService, caller: RunCaller) -> Response:
    """Plan machines for a need, and keep the plan.  An equal request soon after may return the same plan."""
    answer = await service.rendering.answer("make_plan", [body.model_dump_json()], [], caller.who)
    made = json.loads(answer)["plan"]
    return Response(answer, HTTPStatus.CREATED, {"Location": f"/v1/plans/{made}"}, media_type=JSON)


@router.get("/plans", dependencies=[READ])
def plans(service: AppService) -> dict[str, Any]:
    """List the newest plans in short, and the catalogues of machine types and measured nodes to plan with."""
    return {
        "items": service.plans.summaries(LISTED),
        "catalogues": list(shipped()),
        "nodes": [path.stem for path in nodes_of(service.backends.home)],
    }


@router.get("/plans/{plan}", response_model=dict[str, Any])
async def plan(plan: str, service: AppService, caller: ReadCaller) -> Response:
    """Show a plan with all that it was computed from, and each machine type that was refused."""
    await run_in_threadpool(service.plans.check, plan)
    return Response(await service.rendering.answer("plan", [plan], [], caller.who), media_type=JSON)


@router.get("/plans/{plan}/report", response_class=HTMLResponse)
async def report(plan: str, service: AppService, caller: ReadCaller) -> HTMLResponse:
    """Return the HTML page of a plan."""
    await run_in_threadpool(service.plans.check, plan)
    return HTMLResponse(await service.rendering.answer("plan_report", [plan], [], caller.who))


def nodes_of(home: Path) -> list[Path]:
    """Return the files of the nodes that were measured here."""
    return sorted((home / "nodes").glob("*.json"))


def request_of(body: NewPlan, home: Path) -> PlanRequest:
    """Return the request of the use case.  Raises FieldError, UnknownName, NotFound."""
    known = shipped()
    for name in body.catalogues:
        if name not in known:
            raise UnknownName("catalogue", name, known, field="catalogues")
    if bool(body.reads) == (body.application is not None):
        given = "both" if body.reads else "neither"
        raise FieldError("reads", given, "the reads of one node, or the application of one that was measured here")
    if body.writes and not body.reads:
        raise FieldError("writes", len(body.writes), "writes beside reads; those of an application are measured")
    return PlanRequest(
        need=need_of(body.need),
        catalogues=[known[name] for name in body.catalogues],
        node=None if body.application is None else _node(body.application, home),
        reads=[ScalingPoint(point.cores, point.rps, point.spread) for point in body.reads],
        writes=[ScalingPoint(point.cores, point.rps, point.spread) for point in body.writes],
        speeds={pattern: _speed(values) for pattern, values in body.speeds.items()},
        regions=body.regions,
        confidence=body.confidence,
        draws=body.draws,
        seed=body.seed,
        most_nodes=body.most_nodes,
        most_plans=body.top,
        most_times=body.most_times,
        extrapolate=body.extrapolate,
        media=body.media,
    )


def need_of(document: dict[str, Any]) -> Need:
    """Return the need that a body states as ``need.yaml`` does.  Raises FieldError."""
    try:
        return check(Document(Path("need"), {"kind": "need", "version": 1, **document}, {}), NeedFile).need()
    except FileError as error:
        raise FieldError(f"need.{error.key}".rstrip("."), error.found, error.allowed) from None


def _node(application: str, home: Path) -> NodeMeasurement:
    paths = {path.stem: path for path in nodes_of(home)}
    if application not in paths:
        raise UnknownName("measured node", application, paths, field="application")
    try:
        return load_node(paths[application])
    except FileError as error:
        raise NotFound(f"the node of {application} cannot be read: {error}") from error


def _speed(values: list[float]) -> Interval:
    if len(values) == 2 or values != sorted(values):
        raise FieldError("speeds", ", ".join(f"{value:g}" for value in values), "one speed, or low, likely and high")
    return Interval(values[0], values[len(values) // 2], values[-1])
