"""The catalogue: the applications, optimizers and search spaces that the service knows."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from framework.api.dependencies import READ, AppService
from framework.model.documents import encode

router = APIRouter(tags=["catalogue"], dependencies=[READ])


@router.get("/applications")
def applications(service: AppService) -> dict[str, Any]:
    """List the applications in the directories that the operator allows; ``broken`` says why others cannot be used."""
    usable, broken = service.applications()
    return {"items": [service.application_document(application) for application in usable.values()], "broken": broken}


@router.get("/applications/{name}")
def application(name: str, service: AppService) -> dict[str, Any]:
    """Show an application with the parameters of each service."""
    application = service.application(name)
    space = service.catalogue.space(application)
    derived = {entry.name: entry.parameter for entry in space.dependents.derived}
    parameters = [
        {"name": parameter.name, "service": parameter.group, "kind": parameter.kind, "default": parameter.default,
         "low": parameter.low, "high": parameter.high, "choices": list(parameter.choices),
         "unit": parameter.attributes.get("unit", ""), "derived": space.dependents.texts.get(parameter.name, "")}
        for parameter in (*space.tuned, *derived.values())
    ]  # fmt: skip
    return {**service.application_document(application), "parameters": parameters}


@router.get("/optimizers")
def optimizers(service: AppService) -> dict[str, Any]:
    """List the optimizers."""
    return {"items": encode(service.catalogue.optimizers())}


@router.get("/search-spaces")
def search_spaces(service: AppService) -> dict[str, Any]:
    """List the service types of the knowledge base."""
    kinds = service.catalogue.service_types_named(None)
    return {"items": [{"name": kind.name, "parameters": len(kind.parameters)} for kind in kinds]}


@router.get("/search-spaces/{name}")
def search_space(name: str, service: AppService) -> dict[str, Any]:
    """Show a service type with its parameters."""
    kind: dict[str, Any] = encode(service.catalogue.service_types_named(name)[0])
    return kind
