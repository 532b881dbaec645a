"""Health, readiness, metrics, and what this machine is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Depends
from fastapi.responses import PlainTextResponse

import framework
from framework.api.service import Service
from framework.model.documents import encode


def router(service: Service) -> APIRouter:
    """Routes that a monitor asks; health and readiness need no token."""
    routes = APIRouter(tags=["system"])
    reads = Depends(service.access.needs("read"))

    @routes.get("/health")
    def health() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok", "version": framework.__version__}

    @routes.get("/ready")
    def ready() -> dict[str, str]:
        """The store answers too."""
        service.queue.jobs()
        return {"status": "ok"}

    @routes.get("/machine", dependencies=[reads])
    def machine() -> dict[str, Any]:
        """The machine of this process, and what is missing on it."""
        home = str(service.sharing.home)  # where it lies is the operator's business
        findings = [replace(one, found=one.found.replace(home, "TAILOR_HOME")) for one in service.tailor.examine([])]
        return {"machine": encode(service.tailor.machine()), "findings": encode(findings)}

    @routes.get("/metrics", dependencies=[reads], response_class=PlainTextResponse)
    def metrics() -> str:
        """Prometheus text format 0.0.4."""
        states = Counter(study.state.value for study in service.tailor.store.studies())
        jobs = service.queue.jobs()
        lines = ["# HELP tailor_studies Studies by state.", "# TYPE tailor_studies gauge"]
        lines += [f'tailor_studies{{state="{state}"}} {count}' for state, count in sorted(states.items())]
        lines += ["# HELP tailor_jobs Studies that wait for a worker or run.", "# TYPE tailor_jobs gauge"]
        lines += [f'tailor_jobs{{state="waiting"}} {sum(not job.worker for job in jobs)}']
        lines += [f'tailor_jobs{{state="running"}} {sum(bool(job.worker) for job in jobs)}']
        return "\n".join(lines) + "\n"

    return routes
