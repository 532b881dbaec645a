"""A small client of Tailor's REST API, for scripts and for teams that measure in a way of their own.

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
    """The service said no: ``status`` and its ``detail``."""

    def __init__(self, status: int, detail: str) -> None:
        self.status, self.detail = status, detail
        super().__init__(f"{status}: {detail}")


@dataclass(frozen=True)
class Asked:
    """A configuration to measure."""

    trial: int
    configuration: Mapping[str, Any]


class Client:
    """``address`` such as http://127.0.0.1:8420.  Every method raises Refused, urllib3.exceptions.HTTPError."""

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
        self._http.clear()

    # ------------------------------------------------------------------ jobs

    def launch(self, *, key: str = "", **job: Any) -> str:
        """A new study (the fields of POST /v1/studies); its id.  The same ``key`` again gives the same study."""
        headers = {"Idempotency-Key": key} if key else {}
        return str(self._ask("POST", "/studies", job, headers)["study"])

    def study(self, study: str) -> Mapping[str, Any]:
        """What it found so far."""
        found: Mapping[str, Any] = self._ask("GET", f"/studies/{study}")
        return found

    def studies(self, **filters: str) -> Iterator[Mapping[str, Any]]:
        """All of them, the newest first."""
        yield from self._pages("/studies", filters)

    def trials(self, study: str) -> Iterator[Mapping[str, Any]]:
        yield from self._pages(f"/studies/{study}/trials", {})

    def export(self, study: str) -> bytes:
        """The whole study as a zip file, as ``tailor export`` writes it."""
        return self._sent("GET", f"/studies/{study}/export")

    def wait(self, study: str, every_s: float = 1.0) -> Mapping[str, Any]:
        """The study once it has ended or was paused and nobody has it."""
        while True:
            found = self.study(study)
            if found["state"] in ENDED and found["job"] is None:
                return found
            time.sleep(every_s)

    def stop(self, study: str, when: str = "now") -> None:
        self._ask("POST", f"/studies/{study}/stop", {"when": when})

    def resume(self, study: str) -> None:
        self._ask("POST", f"/studies/{study}/resume", {})

    # ------------------------------------------------------------------ measuring in a way of one's own

    def create(self, name: str, parameters: Sequence[Mapping[str, Any]], *, key: str = "", **more: Any) -> str:
        """A study of parameters of one's own; its id.  The same ``key`` again gives the same study."""
        body = {"name": name, "parameters": list(parameters), **more}
        return str(self._ask("POST", "/external", body, {"Idempotency-Key": key} if key else {})["study"])

    def ask(self, study: str, client: str, count: int = 1, lease_s: float = 600.0) -> list[Asked]:
        """Configurations to measure; none when the budget or the space is used up."""
        body = {"client": client, "count": count, "lease_s": lease_s}
        found = self._ask("POST", f"/external/{study}/ask", body)["trials"]
        return [Asked(one["trial"], one["configuration"]) for one in found]

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
        """What a trial gave; None where it failed.

        ``quantities``: what the study's limits and further wishes need; ``costs``: what each group of parameters (a
        service) took of it, such as CPU time per request, from which ``tailor`` learns.  ``why`` becomes one line.
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
        """Renew leases; the trials that are lost."""
        body = {"client": client, "trials": list(trials)}
        return list(self._ask("POST", f"/external/{study}/heartbeat", body)["lost"])

    # ------------------------------------------------------------------ inside

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
        """What is answered.  Raises Refused."""
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
    """The text as one line, as the service takes it."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def _detail(answer: urllib3.BaseHTTPResponse) -> str:
    """What a refusal says; a server between here and there may say it in another form."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, LookupError, TypeError):
        return answer.reason or ""
