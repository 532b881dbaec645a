"""Whatever the OpenAPI description allows or forbids to send, the service answers: no bug, no path, no secret.

2,000 requests here; TAILOR_SCHEMA_REQUESTS asks for more (experiments/bad-input/ has a campaign of 50,000).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.result import Ok

from tests.serving import Here, serving

REQUESTS = int(os.environ.get("TAILOR_SCHEMA_REQUESTS", "2000"))
SLOW = {"/v1/studies/{study}/events"}  # a stream that ends when its reader leaves
SECRET = "sesame-of-the-operator"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with pytest.MonkeyPatch.context() as patch, serving(tmp_path_factory.mktemp("schema"), patch) as found:
        study = found.launch()
        found.kept.worker.run(until_empty=True)
        assert found.get(f"/studies/{study}")["state"] == "completed"
        yield found


def test_every_answer_is_one(here: Here, tmp_path_factory: pytest.TempPathFactory) -> None:
    document = here.client.get("/v1/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    found = [one.ok() for one in schema.get_all_operations() if isinstance(one, Ok)]
    assert len(found) == sum(len(methods) for methods in document["paths"].values()), "all are understood"
    operations = [one for one in found if one.path not in SLOW]
    plain = {one.label for one in operations if not one.definition.raw.get("parameters") and not one.body}
    each = max(1, REQUESTS // (len(operations) - len(plain)))
    known = [one["study"] for one in here.get("/studies")["items"]]
    hidden = [str(tmp_path_factory.getbasetemp()), SECRET, "Traceback"]
    asked = 0

    for operation in operations:

        @settings(
            max_examples=3 if operation.label in plain else each,  # without parameters all are the same
            deadline=None,
            database=None,
            derandomize=REQUESTS <= 2000,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            nonlocal asked
            asked += 1
            if "study" in (case.path_parameters or {}) and asked % 2:  # half of them of a study that there is
                case.path_parameters["study"] = known[asked % len(known)]
            answer = case.call(base_url=str(here.client.base_url), headers={"X-Request": SECRET})
            assert answer.status_code < 500 or answer.status_code == 503, (case.as_curl_command(), answer.text)
            for text in hidden:
                assert text not in answer.text, (case.as_curl_command(), answer.text)
            if answer.status_code >= 400:
                assert answer.headers["content-type"][0].startswith("application/problem+json"), answer.headers

        ask()
    assert asked >= REQUESTS // 2
