"""Client of Tailor's REST API, for scripts and for teams that measure in a way of their own.

    with Client("http://127.0.0.1:8420", token="tailor_...") as tailor:
        study = tailor.launch(application="social-network", testbed="twin", iterations=15)
        print(tailor.wait(study)["headline"])

It needs urllib3 and nothing else of Tailor.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

import urllib3

ENDED = ("completed", "failed", "paused")


class Refused(Exception):
    """The service refused a request: its HTTP ``status``, and ``detail`` says why."""

    def __init__(self, status: int, detail: str) -> None:
        self.status, self.detail = status, detail
        super().__init__(f"{status}: {detail}")


@dataclass(frozen=True)
class Asked:
    """A configuration to measure."""

    trial: int
    configuration: Mapping[str, Any]


class Client:
    """A client of the service at ``address``, such as http://127.0.0.1:8420.

    Every method raises Refused, and urllib3.exceptions.HTTPError where the service is not reached.
    """

    def __init__(self, address: str, token: str = "", timeout_s: float = 30.0) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._address = address.rstrip("/") + "/v1"
        self._http = urllib3.PoolManager(headers=headers, timeout=timeout_s, retries=False)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.clear()

    # ------------------------------------------------------------------ studies that Tailor measures

    def launch(self, *, key: str = "", **job: Any) -> str:
        """Launch a study; return its id.  The same ``key`` makes no second study.

        ``job``: the fields of POST /v1/studies.
        """
        headers = {"Idempotency-Key": key} if key else {}
        return str(self._ask("POST", "/studies", job, headers)["study"])

    def study(self, study: str) -> Mapping[str, Any]:
        """Return a study with its results so far, as GET /v1/studies/STUDY shows it."""
        shown: Mapping[str, Any] = self._ask("GET", f"/studies/{study}")
        return shown

    def studies(self, **filters: str) -> Iterator[Mapping[str, Any]]:
        """Yield studies, the newest first.  ``filters``: the parameters of GET /v1/studies."""
        yield from self._pages("/studies", filters)

    def trials(self, study: str) -> Iterator[Mapping[str, Any]]:
        """Yield the trials of a study in their order, without measurements."""
        yield from self._pages(f"/studies/{study}/trials", {})

    def export(self, study: str) -> bytes:
        """Return the whole study as a zip file, as ``tailor export`` writes it."""
        return self._sent("GET", f"/studies/{study}/export")

    def wait(self, study: str, every_s: float = 1.0) -> Mapping[str, Any]:
        """Wait until a study is completed, failed or paused and no worker has it; return it as ``study`` does."""
        while True:
            shown = self.study(study)
            if shown["state"] in ENDED and shown["job"] is None:
                return shown
            time.sleep(every_s)

    def stop(self, study: str, when: str = "now") -> None:
        """Stop a study; ``when``: "now" or "after trial"."""
        self._ask("POST", f"/studies/{study}/stop", {"when": when})

    def resume(self, study: str) -> None:
        """Put a study into the queue of the workers again."""
        self._ask("POST", f"/studies/{study}/resume", {})

    # ------------------------------------------------------------------ studies that the client measures

    def create(self, name: str, parameters: Sequence[Mapping[str, Any]], *, key: str = "", **more: Any) -> str:
        """Create a study of the client's own parameters; return its id.  The same ``key`` makes no second study.

        ``parameters``, ``more``: the fields of POST /v1/external.
        """
        body = {"name": name, "parameters": list(parameters), **more}
        return str(self._ask("POST", "/external", body, {"Idempotency-Key": key} if key else {})["study"])

    def ask(self, study: str, client: str, count: int = 1, lease_s: float = 600.0) -> list[Asked]:
        """Lease configurations to measure; the list is empty when the budget or the space is used up."""
        body = {"client": client, "count": count, "lease_s": lease_s}
        trials = self._ask("POST", f"/external/{study}/ask", body)["trials"]
        return [Asked(trial["trial"], trial["configuration"]) for trial in trials]

    def tell(
        self,
        study: str,
        trial: int,
        value: float | None,
        *,
        error: float | None = None,
        why: str = "",
        quantities: Mapping[str, float] | None = None,
        costs: Mapping[str, float] | None = None,
    ) -> None:
        """Record the result of a trial; ``value`` is None where it failed, and ``why`` says the reason.

        ``error``: the standard error of the value.  ``quantities``: those that the study's limits and ``also`` name.
        ``costs``: group of parameters (a service) -> its cost in the trial, such as CPU time per request; the optimizer
        ``tailor`` learns from it.
        """
        result: dict[str, Any] = {
            "trial": trial,
            "value": value,
            "standard_error": error,
            "reason": _line(why),
        }
        result |= {"state": "completed" if value is not None else "failed"}
        result |= {"quantities": dict(quantities or {}), "costs": dict(costs or {})}
        self._ask("POST", f"/external/{study}/tell", {"results": [result]})

    def heartbeat(self, study: str, client: str, trials: Sequence[int]) -> list[int]:
        """Renew leases; return the trials whose lease is lost."""
        body = {"client": client, "trials": list(trials)}
        return list(self._ask("POST", f"/external/{study}/heartbeat", body)["lost"])

    # ------------------------------------------------------------------ private

    def _pages(self, path: str, filters: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        after: Mapping[str, str] = {}
        while True:
            page = self._ask("GET", f"{path}?{urlencode({**filters, **after})}")
            yield from page["items"]
            if page["next"] is None:
                return
            after = {"after": page["next"]}

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        content = self._sent(method, path, body, headers)
        return json.loads(content) if content else {}

    def _sent(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Send a request; return the body of the answer.  Raises Refused."""
        sent = {**self._http.headers, **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        answer = self._http.request(
            method, self._address + path, body=None if body is None else json.dumps(body), headers=sent
        )
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise Refused(answer.status, _detail(answer))
        return answer.data


def _line(text: str) -> str:
    """Return the text as one line of printable characters: the service refuses others."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def _detail(answer: urllib3.BaseHTTPResponse) -> str:
    """Return the reason of a refusal; a proxy may send it in another form than the service."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, LookupError, TypeError):
        return answer.reason or ""
