"""What can be tuned with what: applications, optimizers, search spaces."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends

from framework.api.service import Service
from framework.model.documents import encode


def router(service: Service) -> APIRouter:
    """The routes of the catalogue."""
    routes = APIRouter(tags=["catalogue"], dependencies=[Depends(service.access.needs("read"))])

    @routes.get("/applications")
    def applications() -> dict[str, Any]:
        """Those of the folders that the operator allows; ``broken`` says why others cannot be used."""
        known, broken = service.applications()
        return {"items": [service.about(one) for one in known.values()], "broken": broken}

    @routes.get("/applications/{name}")
    def application(name: str) -> dict[str, Any]:
        """One, with the parameters of each service."""
        found = service.application(name)
        space = service.catalogue.space(found)
        parameters = [
            {"name": one.name, "service": one.group, "kind": one.kind, "default": one.default, "low": one.low,
             "high": one.high, "choices": list(one.choices), "unit": one.attributes.get("unit", "")}
            for one in space.parameters
        ]  # fmt: skip
        return {**service.about(found), "parameters": parameters}

    @routes.get("/optimizers")
    def optimizers() -> dict[str, Any]:
        return {"items": encode(service.catalogue.optimizers())}

    @routes.get("/search-spaces")
    def search_spaces() -> dict[str, Any]:
        kinds = service.catalogue.service_types_named(None)
        return {"items": [{"name": one.name, "parameters": len(one.parameters)} for one in kinds]}

    @routes.get("/search-spaces/{name}")
    def search_space(name: str) -> dict[str, Any]:
        whole: dict[str, Any] = encode(service.catalogue.service_types_named(name)[0])
        return whole

    return routes
