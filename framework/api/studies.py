"""Studies: launch, list, look, stop, resume, delete, compare, and the best configuration."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.responses import HTMLResponse

from framework.api.access import Caller
from framework.api.bodies import NewStudy, Page, Resume, Stop
from framework.api.problems import Refused
from framework.api.service import Service
from framework.errors import NotFound
from framework.external import EXTERNAL
from framework.model import Study, StudyState, Trial
from framework.model.documents import encode
from framework.planning import quick
from framework.report.document import summary_document

MOST = 200  # of a page


def router(service: Service) -> APIRouter:
    """The routes below /v1/studies."""
    routes = APIRouter(tags=["studies"])
    tailor, queue = service.tailor, service.queue
    reads = Depends(service.access.needs("read"))
    runs = Depends(service.access.needs("run"))
    admins = Depends(service.access.needs("admin"))

    @routes.post("/studies", status_code=HTTPStatus.CREATED)
    def launch(
        body: NewStudy,
        response: Response,
        caller: Caller = runs,
        idempotency_key: Annotated[str | None, Header(max_length=128, min_length=1)] = None,
    ) -> dict[str, Any]:
        """Create a study and let it wait for a worker.

        With an Idempotency-Key, sending the same again makes no second one.
        """
        request = body.request(service.application(body.application))
        study = tailor.create(quick(request) if body.quick else request)
        if idempotency_key is not None:
            digest = hashlib.sha256(body.model_dump_json().encode()).hexdigest()
            first = service.keys.claim(caller.name, idempotency_key, digest, study.id)
            if first != study.id:
                tailor.delete(study.id)
                response.status_code = HTTPStatus.OK
                return document(tailor.store.get(first))
        queue.put(study.id, priority=body.priority, owner=caller.name, place=service.place(study.testbed))
        response.headers["Location"] = f"/v1/studies/{study.id}"
        return document(study)

    @routes.get("/studies", dependencies=[reads])
    def studies(
        state: StudyState | None = None,
        application: str | None = None,
        optimizer: str | None = None,
        testbed: str | None = None,
        after: str = "",
        limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    ) -> Page:
        """The newest first; ``after`` is the id of the last one of the page before."""
        found = tailor.store.page(
            limit + 1, before=after, state=state, application=application, optimizer=optimizer, testbed=testbed
        )
        items = [document(one) for one in found[:limit]]
        return Page(items=items, next=found[limit - 1].id if len(found) > limit else None)

    @routes.get("/studies/{study}", dependencies=[reads])
    def study(study: str) -> dict[str, Any]:
        """What it found so far, its phase and the time left."""
        found = exact(study)
        job = next((one for one in queue.jobs() if one.study == found.id), None)
        summary: dict[str, Any] = {}
        if found.testbed != EXTERNAL:  # of what was measured elsewhere there is no more than its trials
            summary = encode(summary_document(tailor.summary(found)))
        return {**document(found), **summary, "job": encode(job), "progress": encode(queue.progress(found.id))}

    @routes.get("/studies/{study}/trials", dependencies=[reads])
    def trials(
        study: str, after: Annotated[int, Query(ge=0)] = 0, limit: Annotated[int, Query(ge=1, le=MOST)] = 50
    ) -> Page:
        """In their order, without their measurements."""
        found = tailor.store.trial_page(exact(study).id, after, limit + 1)
        items = [trial_document(one) for one in found[:limit]]
        return Page(items=items, next=str(found[limit - 1].number) if len(found) > limit else None)

    @routes.get("/studies/{study}/trials/{number}", dependencies=[reads])
    def trial(study: str, number: int) -> dict[str, Any]:
        """One trial with its measurements."""
        identity = exact(study).id
        found = next((one for one in tailor.store.trials(identity) if one.number == number), None)
        if found is None:
            raise NotFound(f"study {identity} has no trial {number}")
        whole: dict[str, Any] = encode(found)
        return whole

    @routes.get("/studies/{study}/report", dependencies=[reads], response_class=HTMLResponse)
    def report(study: str) -> str:
        """The HTML page."""
        return tailor.page(exact(study))

    @routes.get("/studies/{study}/critical-path", dependencies=[reads])
    def critical_path(study: str) -> dict[str, Any]:
        """Service by service: where requests spend their time with the default and with the best."""
        identity = exact(study).id
        return {"study": identity, "groups": encode(tailor.compare(f"{identity}:default", identity))}

    @routes.get("/studies/{study}/best", dependencies=[reads])
    def best(study: str) -> dict[str, Any]:
        """The best configuration: what differs from the default."""
        summary = tailor.summary(exact(study))
        if summary.best is None:
            raise Refused(HTTPStatus.CONFLICT, "no trial has a value yet")
        return {"trial": summary.best.trial, "changes": encode(summary.changes), "headline": summary.headline}

    @routes.get("/studies/{study}/best.tar.gz", dependencies=[reads])
    def archive(study: str) -> Response:
        """The files to deploy it."""
        found = exact(study)
        with tempfile.TemporaryDirectory() as directory:
            target = Path(directory) / "best"
            names = tailor.export_best(found.id, target)
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w:gz") as file:
                for name in names:
                    file.add(target / name, arcname=f"{found.id}/{name}")
        disposition = f'attachment; filename="{found.id}.tar.gz"'
        return Response(packed.getvalue(), media_type="application/gzip", headers={"Content-Disposition": disposition})

    @routes.post("/studies/{study}/stop", status_code=HTTPStatus.ACCEPTED, dependencies=[runs])
    def stop(study: str, body: Stop) -> dict[str, Any]:
        """Ask whoever runs it to stop, now or after the trial; it can be resumed."""
        return {"job": encode(queue.stop(exact(study).id, body.when))}

    @routes.post("/studies/{study}/resume", status_code=HTTPStatus.ACCEPTED)
    def resume(study: str, body: Resume, caller: Caller = runs) -> dict[str, Any]:
        """Let it wait for a worker again."""
        found = exact(study)
        if found.state is StudyState.COMPLETED:
            raise Refused(HTTPStatus.CONFLICT, f"study {found.id} is completed")
        queue.put(found.id, priority=body.priority, owner=caller.name, place=service.place(found.testbed))
        return document(found)

    @routes.delete("/studies/{study}", status_code=HTTPStatus.NO_CONTENT)
    def delete(study: str, caller: Caller = admins) -> None:
        """Remove a study with all that it measured; not while it runs."""
        tailor.delete(exact(study).id)

    @routes.get("/compare", dependencies=[reads])
    def compare(first: str, second: str) -> dict[str, Any]:
        """Service by service, two configurations: a study's best, or "ID:default"."""
        names = [tailor.labelled(name) for name in (first, second)]
        return {"first": names[0], "second": names[1], "groups": encode(tailor.compare(first, second))}

    def exact(name: str) -> Study:
        """The study of this whole id: a beginning would be a guess.  Raises NotFound."""
        found = tailor.store.get(name)
        if found.id != name:
            raise NotFound(f"no study {name!r}")
        return found

    return routes


def document(study: Study) -> dict[str, Any]:
    """A study in a list."""
    plan = study.plan
    return {
        "study": study.id,
        "state": study.state.value,
        "created_at": study.created_at,
        "application": Path(plan.application).name,
        "optimizer": plan.optimizer,
        "testbed": study.testbed,
        "modelled": study.modelled,
        "quick": plan.quick,
        "iterations": plan.iterations,
        "rate_rps": plan.rate_rps,
        "parameters": len(study.space["parameters"]),
        "best_trial": study.best,
        "verdict": study.verdict.statement if study.verdict else None,
        "gain": study.verdict.gain.value if study.verdict else None,
        "message": study.message,
    }


def trial_document(trial: Trial) -> dict[str, Any]:
    """A trial in a list."""
    whole: dict[str, Any] = encode(trial)
    for name in ("measurements", "documents", "images", "standins"):
        whole.pop(name)
    return whole
