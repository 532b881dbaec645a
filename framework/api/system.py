"""Routes for monitors: health, readiness, metrics, and the machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

import framework
from framework.api.dependencies import READ, AppService
from framework.api.energy import energy_metrics
from framework.api.guarding import guard_metrics
from framework.api.problems import Refused
from framework.model.documents import encode
from framework.use_cases.examine import examine

router = APIRouter(tags=["system"])  # health and readiness need no token


@router.get("/health")
async def health() -> dict[str, str]:  # needs no thread, so that it answers whatever else goes on
    """Tell that the process answers."""
    return {"status": "ok", "version": framework.__version__}


@router.get("/ready")
async def ready(service: AppService) -> dict[str, str]:
    """Tell that disk and database can be used; 503 says why not."""
    missing = await service.readiness.missing()
    if missing:
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, missing, **{"Retry-After": "5"})
    return {"status": "ok"}


@router.get("/machine", dependencies=[READ])
def machine(service: AppService) -> dict[str, Any]:
    """Describe the machine of the service, and say what it lacks."""
    home = str(service.sharing.home)  # its path is not for callers
    findings = [
        replace(finding, found=finding.found.replace(home, "TAILOR_HOME")) for finding in examine(service.backends, [])
    ]
    return {"machine": encode(service.backends.machine()), "findings": encode(findings)}


@router.get("/metrics", dependencies=[READ], response_class=PlainTextResponse)
def metrics(service: AppService) -> str:
    """Tell studies, jobs, what the guard that runs sees, and measured joules, in the Prometheus text format 0.0.4."""
    states = Counter(study.state.value for study in service.store.studies())
    jobs = service.queue.jobs()
    lines = ["# HELP tailor_studies Studies by state.", "# TYPE tailor_studies gauge"]
    lines += [f'tailor_studies{{state="{state}"}} {count}' for state, count in sorted(states.items())]
    lines += ["# HELP tailor_jobs Studies that wait for a worker or run.", "# TYPE tailor_jobs gauge"]
    lines += [f'tailor_jobs{{state="waiting"}} {sum(not job.worker for job in jobs)}']
    lines += [f'tailor_jobs{{state="running"}} {sum(bool(job.worker) for job in jobs)}']
    lines += [*guard_metrics(service.audits), *energy_metrics(service.energies)]
    return "\n".join(lines) + "\n"
