#!/usr/bin/env python3
"""Measures for Tailor in a cluster: asks for a configuration, applies it, measures it, and tells what came out.

It needs Python and nothing else.  What is particular to a cluster are two commands of yours:

    APPLY    gets a configuration in its environment (web.threads is WEB_THREADS) and as JSON on standard input; it ends
             when the configuration is in effect, and fails where it cannot be.
    MEASURE  prints one JSON object: {"value": 17.3} is minimised; also "standard_error", "quantities", "costs".

Further variables: TAILOR_ADDRESS, TAILOR_TOKEN, STUDY (a file: the body of POST /v1/external), KEY (of the study: all
clients with one key work on one study), CLIENT (this client's name), LIMIT_S (of each command, 600).
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

LEASE_S = 120.0
PATIENCE_S = 300.0  # with a service that does not answer


def main() -> None:
    """Measure until the budget is used up."""
    client = os.environ.get("CLIENT") or socket.gethostname()
    body = json.loads(Path(os.environ["STUDY"]).read_text())
    study = call("", body, {"Idempotency-Key": os.environ["KEY"]})["study"]
    print(f"study {study}", flush=True)
    while asked := call(f"/{study}/ask", {"client": client, "count": 1, "lease_s": LEASE_S})["trials"]:
        (trial,) = asked
        with Heartbeat(study, client, trial["trial"]):
            result = {"trial": trial["trial"], **measured(trial["configuration"])}
        call(f"/{study}/tell", {"results": [result]})
        print(json.dumps(result), flush=True)
    best = call(f"/{study}")["best"]
    print(f"best: {json.dumps(best)}", flush=True)


def measured(configuration: dict[str, Any]) -> dict[str, Any]:
    """Apply and measure a configuration; a command that fails is a trial that failed, with its last line as reason."""
    variables = {re.sub(r"\W", "_", name).upper(): text(value) for name, value in configuration.items()}
    limit_s = float(os.environ.get("LIMIT_S", "600"))
    try:
        for command in ("APPLY", "MEASURE"):
            done = subprocess.run(
                ["/bin/sh", "-c", os.environ[command]], input=json.dumps(configuration),
                env={**os.environ, **variables}, capture_output=True, text=True, timeout=limit_s,
            )  # fmt: skip
            if done.returncode:
                said = " ".join(done.stderr.split())[-300:]
                return {"state": "failed", "reason": f"{command.lower()} ended with {done.returncode}: {said}"}
        result: dict[str, Any] = json.loads(done.stdout)
        return {"value": float(result.pop("value")), **result}
    except subprocess.TimeoutExpired:
        return {"state": "failed", "reason": f"{command.lower()} took too long"}
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        return {"state": "failed", "reason": f"measure printed no result: {type(error).__name__}"}


def text(value: object) -> str:
    """Write a value of a parameter as servers read it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Heartbeat:
    """Renews the lease of a trial while it is measured."""

    def __init__(self, study: str, client: str, trial: int) -> None:
        self._path, self._body = f"/{study}/heartbeat", {"client": client, "trials": [trial]}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._done.wait(LEASE_S / 4):
            call(self._path, self._body)


def call(path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
    """Send a request to the service, again while it does not answer; end with its reason where it refuses."""
    token = os.environ.get("TAILOR_TOKEN", "")
    sent = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(
        f"{os.environ['TAILOR_ADDRESS'].rstrip('/')}/v1/external{path}",
        None if body is None else json.dumps(body).encode(), {**sent, **(headers or {})},
    )  # fmt: skip
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            if error.code < 500 or time.monotonic() > deadline:
                sys.exit(f"the service refuses: {error.code} {error.read().decode()[:500]}")
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"the service does not answer: {error}")
        time.sleep(2)


if __name__ == "__main__":
    main()
