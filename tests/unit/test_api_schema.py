"""Whatever the OpenAPI description allows or forbids to send, the service answers: no bug, no path, no secret.

2,000 requests here; TAILOR_SCHEMA_REQUESTS asks for more (experiments/bad-input/ has a campaign of 50,000), and
TAILOR_SCHEMA_RESULTS names a file for how many were answered how.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from tests.energy_machine import energy_kept
from tests.guard_audits import entries, written
from tests.serving import JOB, PATIENCE_S, Here, serving

REQUESTS = int(os.environ.get("TAILOR_SCHEMA_REQUESTS", "2000"))
SLOW = {"/v1/studies/{study}/events"}  # a stream that ends when its reader leaves
RARELY = {
    "/v1/studies/{study}/report",
    "/v1/plans/{plan}/report",
    "/v1/energy/{application}/report",
}  # draws figures for a second or two
LAST = ("/finish", "DELETE")  # others have to find the studies first
SECRET = "sesame-of-the-operator"
PARAMETERS = [
    {"name": "web.threads", "kind": "integer", "default": 8, "low": 1, "high": 64, "scale": "log"},
    {"name": "web.mode", "kind": "categorical", "default": "a", "choices": ["a", "b"]},
]
BODIES: Mapping[str, Mapping[str, Any]] = {
    "/v1/studies": JOB,
    "/v1/studies/{study}/stop": {},
    "/v1/studies/{study}/resume": {},
    "/v1/plans": {
        "need": {"reads": "1M/s", "stored": "10GB", "record": "1KiB"},
        "reads": [{"cores": 16, "rps": 1e6}],
        "draws": 100,
        "regions": ["eu-west-1"],
    },
    "/v1/external": {"name": "mine", "parameters": PARAMETERS, "optimizer": "random"},
    "/v1/external/{study}/ask": {"client": "a"},
    "/v1/external/{study}/tell": {"results": [{"trial": 1, "value": 1.0}]},
    "/v1/external/{study}/heartbeat": {"client": "a", "trials": [1, 2]},
}
"""A good body for each path: every second request sends one, with some of its values generated."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with pytest.MonkeyPatch.context() as patch, serving(tmp_path_factory.mktemp("schema"), patch) as server:
        study = server.launch()
        server.kept.worker.run(until_empty=True)
        assert server.get(f"/studies/{study}")["state"] == "completed"
        yield server


@pytest.fixture(scope="module")
def known(here: Here) -> Mapping[str, Mapping[str, Any]]:
    """Return values of path parameters that exist, by the beginning of the path, longer beginnings first."""
    [tuned] = [study["study"] for study in here.get("/studies")["items"]]
    waits = here.launch(seed=2)
    mine = here.client.post("/v1/external", json={**BODIES["/v1/external"], "budget": 1_000_000}).json()["study"]
    here.client.post(f"/v1/external/{mine}/ask", json={"client": "a", "count": 5}).raise_for_status()
    return {
        "/v1/studies/{study}/stop": {"study": waits},
        "/v1/studies/{study}/resume": {"study": waits},
        "/v1/studies/": {"study": tuned, "number": 2},
        "/v1/external/": {"study": mine},
        "/v1/applications/": {"name": "url-shortener"},
        "/v1/search-spaces/": {"name": "redis"},
        "/v1/plans/": {"plan": here.client.post("/v1/plans", json=BODIES["/v1/plans"]).json()["plan"]},
        "/v1/energy/": {"application": energy_kept(here.kept.backends.home)},
        "/v1/guards/": {"guard": written(here.kept.backends.home, entries())},
        "/v1/compare": {"first": f"{tuned}:default", "second": tuned},
    }


def test_every_operation_is_answered(
    here: Here, known: Mapping[str, Mapping[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    document = here.client.get("/v1/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    described = [operation.ok() for operation in schema.get_all_operations() if isinstance(operation, Ok)]
    assert len(described) == sum(len(methods) for methods in document["paths"].values()), "all are understood"
    operations = [operation for operation in described if operation.path not in SLOW]
    operations.sort(key=lambda operation: any(last in operation.label for last in LAST))
    plain = {
        operation.label
        for operation in operations
        if not operation.definition.raw.get("parameters") and not operation.body
    }
    each = max(2, REQUESTS // (len(operations) - len(plain)))
    hidden = [str(tmp_path_factory.getbasetemp()), SECRET, "Traceback"]
    answers: Counter[str] = Counter()

    def ask(case: Any) -> None:
        if answers.total() % 2:  # every second request is about something that there is
            _make_real(case, known, answers.total())
        answer = case.call(base_url=str(here.client.base_url), headers={"X-Request": SECRET}, timeout=PATIENCE_S)
        answers[f"{case.operation.label}: {answer.status_code}"] += 1
        assert answer.status_code < 500 or answer.status_code == 503, (case.as_curl_command(), answer.content)
        for text in hidden:
            assert text.encode() not in answer.content, (case.as_curl_command(), answer.content)
        if answer.status_code >= 400:
            assert answer.headers["content-type"][0].startswith("application/problem+json"), answer.headers

    for operation in operations:
        allowed = operation.as_strategy()
        if operation.label in plain:  # all its requests are equal
            cases, count = allowed, 3
        else:
            cases = st.one_of(allowed, operation.as_strategy(GenerationMode.NEGATIVE))
            count = max(4, each // 20) if operation.path in RARELY else each
        settings(
            max_examples=count,
            deadline=None,
            database=None,
            derandomize=REQUESTS <= 2000,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )(given(cases)(ask))()
    if "TAILOR_SCHEMA_RESULTS" in os.environ:
        said = {"requests": answers.total(), "answers": dict(sorted(answers.items()))}
        Path(os.environ["TAILOR_SCHEMA_RESULTS"]).write_text(json.dumps(said, indent=1) + "\n")
    assert answers.total() >= REQUESTS // 2
    reached = {label.rpartition(":")[0] for label in answers if label[-3:] < "400"}
    assert reached == {operation.label for operation in operations}, "every operation was also carried out"


def _make_real(case: Any, known: Mapping[str, Mapping[str, Any]], number: int) -> None:
    """Let a generated request name things that exist, and keep only some of the values in its body."""
    values = next((values for beginning, values in known.items() if case.path.startswith(beginning)), {})
    for named in (case.path_parameters, case.query):
        for name in named or ():
            named[name] = values.get(name, named[name])
    good = BODIES.get(case.path)
    if good is not None and isinstance(case.body, dict):
        kept = list(case.body.items())[: number // 2 % 3]
        case.body = {**good, **dict(kept)}
