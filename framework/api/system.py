"""Health, readiness, metrics, and what this machine is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Depends
from fastapi.responses import PlainTextResponse

import framework
from framework.api.problems import Refused
from framework.api.readiness import Readiness
from framework.api.service import Service
from framework.model.documents import encode
from framework.use_cases.examine import examine


def router(service: Service) -> APIRouter:
    """Routes that a monitor asks; health and readiness need no token."""
    routes = APIRouter(tags=["system"])
    readiness = Readiness(service.sharing.home, service.check)
    reads = Depends(service.access.needs("read"))

    @routes.get("/health")
    async def health() -> dict[str, str]:  # waits for no thread, so that it answers whatever else goes on
        """The process answers."""
        return {"status": "ok", "version": framework.__version__}

    @routes.get("/ready")
    async def ready() -> dict[str, str]:
        """Disk and database can be used too; else 503 says why not."""
        missing = await readiness.missing()
        if missing:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, missing, **{"Retry-After": "5"})
        return {"status": "ok"}

    @routes.get("/machine", dependencies=[reads])
    def machine() -> dict[str, Any]:
        """The machine of this process, and what is missing on it."""
        home = str(service.sharing.home)  # where it lies is the operator's business
        findings = [replace(one, found=one.found.replace(home, "TAILOR_HOME")) for one in examine(service.backends, [])]
        return {"machine": encode(service.backends.machine()), "findings": encode(findings)}

    @routes.get("/metrics", dependencies=[reads], response_class=PlainTextResponse)
    def metrics() -> str:
        """Prometheus text format 0.0.4."""
        states = Counter(study.state.value for study in service.store.studies())
        jobs = service.queue.jobs()
        lines = ["# HELP tailor_studies Studies by state.", "# TYPE tailor_studies gauge"]
        lines += [f'tailor_studies{{state="{state}"}} {count}' for state, count in sorted(states.items())]
        lines += ["# HELP tailor_jobs Studies that wait for a worker or run.", "# TYPE tailor_jobs gauge"]
        lines += [f'tailor_jobs{{state="waiting"}} {sum(not job.worker for job in jobs)}']
        lines += [f'tailor_jobs{{state="running"}} {sum(bool(job.worker) for job in jobs)}']
        return "\n".join(lines) + "\n"

    return routes
