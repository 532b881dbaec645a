"""Scenes of many clients at once: half-sent requests, event streams, readers, launches, stops, large asks."""

from __future__ import annotations

import json
import random
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from experiments.safety.judging import Judge
from experiments.safety.target import JOB, PARAMETERS, Known, space
from experiments.safety.wire import Answer, Connection, Request

JSON = ((b"Content-Type", b"application/json"),)
HALVES = (
    b"", b"G", b"GET /v1/health HTTP/1.1\r\n", b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: ", b"\r\n",
    b"POST /v1/studies HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
    b"POST /v1/studies HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n{",
    b"\x16\x03\x01\x02\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
)  # fmt: skip


@dataclass(frozen=True)
class Size:
    """How many take part in a scene.  ``large``: (optimizer, parameters) of the spaces that are asked at once."""

    halves: int = 300
    streams: int = 80
    readers: int = 45
    races: int = 8
    large: tuple[tuple[str, int], ...] = (
        ("random", 5_000), ("dds", 5_000), ("tpe", 5_000), ("lhs", 5_000), ("ga", 5_000),
        ("bo-gp", 5_000), ("tpe", 5_000), ("sa", 5_000), ("tpe", 400),
        ("random", 400),
    )  # fmt: skip


SHORT = Size(
    halves=60, streams=60, readers=20, races=4, large=(("random", 5_000), ("dds", 600), ("tpe", 500), ("tpe", 20))
)


class Scenes:
    """Each takes part in the campaign as often as it is called, and judges all that is answered."""

    def __init__(self, port: int, judge: Judge, known: Known, size: Size, seed: int) -> None:
        self._port, self._judge, self._known, self._size = port, judge, known, size
        self._random = random.Random(f"scenes {seed}")

    @property
    def all(self) -> Sequence[Callable[[], None]]:
        return (
            self.half_sent, self.streams, self.readers, self.keys_at_once, self.stops_and_resumptions, self.large_asks,
        )  # fmt: skip

    # ------------------------------------------------------------------ connections

    def half_sent(self) -> None:
        """Open many connections that send a part of a request; the service answers others meanwhile."""
        waiting: list[socket.socket] = []
        try:
            for _ in range(self._size.halves):
                half = self._random.choice(HALVES)
                with suppress(OSError):  # one that was closed to make room
                    connection = socket.create_connection(("127.0.0.1", self._port), timeout=30)
                    waiting.append(connection)
                    connection.sendall(half)
                self._judge.look(Request("half-sent", "GET", b""), Answer(0))
            self._get("/v1/health", 200)
        finally:
            for connection in waiting:
                connection.close()

    def streams(self) -> None:
        """Open more event streams than one caller may have."""
        path = f"/v1/studies/{self._known.streamed}/events"
        watching: list[socket.socket] = []
        statuses: list[int] = []
        try:
            for _ in range(self._size.streams):
                connection = socket.create_connection(("127.0.0.1", self._port), timeout=60)
                watching.append(connection)
                connection.sendall(Request("", "GET", path.encode()).encoded())
                first = connection.recv(65_536)
                status = int(first[9:12]) if first.startswith(b"HTTP/1.1 ") else 0
                statuses.append(status)
                body = first.partition(b"\r\n\r\n")[2]
                kind = "text/event-stream" if status == 200 else "application/problem+json"
                self._judge.look(
                    Request("streams", "GET", path.encode()), Answer(status, (("content-type", kind),), body)
                )
            if set(statuses) - {200, 429} or statuses.count(200) > 50:
                self._judge.note("more event streams than one caller may have", statuses=repr(statuses))
            self._get("/v1/health", 200)
        finally:
            for connection in watching:
                connection.close()

    # ------------------------------------------------------------------ readers

    def readers(self) -> None:
        """Ask many times for the page of a study that has just changed, and for many other answers."""
        tuned, elsewhere = self._known.tuned, self._known.elsewhere
        self._post(f"/v1/external/{elsewhere}/ask", {"client": "reader", "count": 1}, (200,))
        paths = [f"/studies/{tuned}", f"/studies/{elsewhere}", f"/v1/studies/{elsewhere}/export", "/optimizers"]
        paths += [f"/compare?first={tuned}&second={tuned}:{number}" for number in range(30)]
        paths += [f"/v1/studies/{tuned}/{end}" for end in ("report", "best", "best.tar.gz", "critical-path", "export")]
        wanted = [self._random.choice(paths) for _ in range(self._size.readers)]
        self._concurrently([partial(self._get, path, 200, 404, 409, 422, 429, 503) for path in wanted])

    # ------------------------------------------------------------------ launches, stops

    def keys_at_once(self) -> None:
        """Launch with one key at the same time: one study, and one outcome for each body."""
        key = ((b"Idempotency-Key", secrets.token_hex(8).encode()), *JSON)
        launch = {**JOB, "iterations": 1, "repetitions": 1, "pairs": 0, "quick": True}
        other = {"name": "mine", "parameters": PARAMETERS, "optimizer": "random", "budget": 5}
        bodies = [("/v1/studies", {**launch, "seed": number % 2 + 1}) for number in range(self._size.races)]
        bodies += [("/v1/external", other)]
        answers = self._concurrently([partial(self._post, path, body, (200, 201, 422), key) for path, body in bodies])
        made = {json.loads(answer.body)["study"] for answer in answers if answer.status in (200, 201)}
        if len(made) != 1 or [answer.status for answer in answers].count(201) != 1:
            self._judge.note(
                "one key made more than one study", made=sorted(made), statuses=[a.status for a in answers]
            )

    def stops_and_resumptions(self) -> None:
        """Stop and resume at the same time; a resumption that comes after all of them is the last word."""
        study = self._known.long
        actions = ["stop", "resume"] * self._size.races
        self._concurrently(
            [partial(self._post, f"/v1/studies/{study}/{action}", {}, (202, 404, 409)) for action in actions]
        )
        self._post(f"/v1/studies/{study}/resume", {}, (202,))
        study_document = json.loads(self._get(f"/v1/studies/{study}", 200).body)
        if study_document["job"] is None or study_document["job"]["stop"]:
            self._judge.note("a study that was resumed has no job", study=repr(study_document)[:2000])
        self._post(f"/v1/studies/{study}/stop", {}, (202,))

    # ------------------------------------------------------------------ asks

    def large_asks(self) -> None:
        """Let each client ask for a hundred configurations of a large space of its own."""

        def client(optimizer: str, parameters: int) -> None:
            made = {"name": "large", "parameters": space(parameters), "optimizer": optimizer, "budget": 10_000}
            answer = self._post("/v1/external", made, (201, 422, 429, 503))  # 422: a large design
            if answer.status != 201:
                return
            study = json.loads(answer.body)["study"]
            asked = self._post(f"/v1/external/{study}/ask", {"client": "a", "count": 100}, (200, 422, 429, 503))
            trials = json.loads(asked.body)["trials"] if asked.status == 200 else []
            results = [{"trial": trial["trial"], "value": 1.0} for trial in trials]
            if results:
                self._post(f"/v1/external/{study}/tell", {"results": results}, (200, 429, 503))
            self._send("DELETE", f"/v1/studies/{study}", None, (204, 503))

        self._concurrently([partial(client, *space) for space in self._size.large])

    # ------------------------------------------------------------------ inside

    def _get(self, path: str, *statuses: int) -> Answer:
        return self._send("GET", path, None, statuses)

    def _post(
        self, path: str, body: Mapping[str, Any], statuses: Sequence[int], headers: Sequence[tuple[bytes, bytes]] = JSON
    ) -> Answer:
        return self._send("POST", path, json.dumps(body).encode(), statuses, headers)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        statuses: Sequence[int],
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Answer:
        """Send a request, judge the answer, and check that it has one of these statuses."""
        shown = path.partition("?")[0]
        for study, name in (
            (self._known.tuned, "tuned"),
            (self._known.elsewhere, "elsewhere"),
            (self._known.long, "long"),
        ):
            shown = shown.replace(study, name)
        request = Request(
            f"at once {method} {shown if '/large' not in shown else 'large'}",
            method,
            path.encode(),
            tuple(headers),
            body,
        )
        connection = Connection(self._port)
        try:
            answer = connection.send(request)
        finally:
            connection.close()
        self._judge.look(request, answer)
        if answer.status not in statuses:
            self._judge.note(
                f"{answer.status} instead of {statuses}", request=repr(request)[:2000], answer=repr(answer.body[:500])
            )
        return answer

    def _concurrently(self, actions: Sequence[Callable[[], Any]]) -> list[Any]:
        with ThreadPoolExecutor(len(actions)) as pool:
            return [future.result() for future in [pool.submit(action) for action in actions]]


def settled(port: int, study: str, patience_s: float) -> str:
    """The state of a study once no worker has it any more."""
    deadline = time.monotonic() + patience_s
    connection = Connection(port)
    while True:
        document = json.loads(connection.send(Request("", "GET", f"/v1/studies/{study}".encode())).body)
        if document["job"] is None or time.monotonic() > deadline:
            connection.close()
            return str(document["state"])
        time.sleep(0.5)
