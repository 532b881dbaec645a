"""The part of the campaign that goes over HTTP: hostile requests by several clients, with scenes between them."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from experiments.safety.hostile_requests import Requests, routes_of
from experiments.safety.judging import Judge
from experiments.safety.scenes import Scenes, Size
from experiments.safety.target import Health, Memory, Place, Service, prepared
from experiments.safety.wire import Connection

CLIENTS = 4
BUSY = "the database does not answer"  # within two seconds: then not to be ready is the right answer
MOST_BYTES = 2**30  # of the service, and of each process that it begins


def campaign(
    requests: int, seed: int, size: Size, rounds: int, told: Callable[[str], None] = lambda text: None
) -> Mapping[str, Any]:
    """Send so many hostile requests and play each scene so many times; return the answers' counts and every finding."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="safety-") as directory:
        place = Place(Path(directory))
        with Service(place) as service, Memory(service.process.pid) as memory:
            known = prepared(service.address)
            openapi = httpx.get(f"{service.address}/v1/openapi.json", timeout=60).json()
            routes = routes_of(openapi)
            judge = Judge(place.hidden)
            scenes = Scenes(service.port, judge, known, size, seed)
            with Health(place, service.port) as health:
                for number in range(rounds):
                    part = requests * (number + 1) // rounds - requests * number // rounds
                    clients = [
                        _client(
                            service.port,
                            judge,
                            Requests(f"{seed} {number} {client}", place, known, routes),
                            part // CLIENTS + 1,
                        )
                        for client in range(CLIENTS)
                    ]
                    scene_thread = threading.Thread(target=_guarded(scenes.all[number % len(scenes.all)], judge))
                    scene_thread.start()
                    for client in clients:
                        client.join()
                    scene_thread.join()
                    for scene in scenes.all if number % 3 == 2 or rounds < 3 else ():
                        _guarded(scene, judge)()
                    told(f"round {number + 1} of {rounds}: {judge.requests} requests, {judge.found} findings")
                asked = health.answers()
            if service.process.poll() is not None:
                judge.note("the service ended")
            before = time.monotonic()
        ended_s = time.monotonic() - before
        _look_at_log(service.log, judge)
    return _result(judge, memory, asked, ended_s, time.monotonic() - began, len(routes))


def _guarded(act: Callable[[], None], judge: Judge) -> Callable[[], None]:
    """Return a scene whose error is a finding."""

    def guarded() -> None:
        try:
            act()
        except Exception:
            judge.note("a scene failed", error=traceback.format_exc())

    return guarded


def _client(port: int, judge: Judge, requests: Requests, count: int) -> threading.Thread:
    def send() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)  # who attacks has a machine of his own
        connection = Connection(port)
        for _ in range(count):
            request = requests.next()
            try:
                judge.look(request, connection.send(request))
            except TimeoutError:
                judge.note("no answer", request=repr(request)[:2000])
        connection.close()

    thread = threading.Thread(target=_guarded(send, judge))
    thread.start()
    return thread


def _look_at_log(log: Path, judge: Judge) -> None:
    """Note every error in the service's log as a finding."""
    for line in log.read_text(errors="replace").splitlines():
        if '"Traceback' in line or "a request failed" in line or "Exception in" in line:
            judge.note("the log has an error", line=f"{line[:300]} ... {line[-1500:]}")


def _result(
    judge: Judge, memory: Memory, asked: list[tuple[str, Any, float, float]], ended_s: float, took_s: float, routes: int
) -> Mapping[str, Any]:
    by_status: Counter[str] = Counter()
    for what, count in judge.answers.items():
        by_status[what.rpartition(": ")[2]] += count
    of_health = sorted((seconds for path, _, seconds, _ in asked if path == "/v1/health"), reverse=True)
    of_ready = sorted((seconds for path, _, seconds, _ in asked if path == "/v1/ready"), reverse=True)
    if memory.most_of_one > MOST_BYTES:
        judge.note("more memory than 1 GiB", bytes=memory.most_of_one)
    if wrong := [
        answer for answer in asked if answer[1] != 200 and not (answer[0] == "/v1/ready" and BUSY in str(answer[1]))
    ]:
        judge.note("health or readiness was not 200", answers=repr(wrong[:10]))
    unready = [answer for answer in asked if answer[0] == "/v1/ready" and answer[1] != 200]
    return {
        "requests": judge.requests,
        "routes": routes,
        "by_status": dict(sorted(by_status.items())),
        "busy": dict(judge.busy.most_common()),
        "health": {"asked": len(of_health), "slowest_s": [round(seconds, 3) for seconds in of_health[:10]]},
        "ready": {
            "asked": len(of_ready),
            "slowest_s": [round(seconds, 3) for seconds in of_ready[:10]],
            "busy": [str(answer[1]) for answer in unready],
        },
        "memory_mib": {
            "samples": memory.samples,
            "of_one_process": memory.most_of_one >> 20,
            "together": memory.most_together >> 20,
            "of_each": {role: most >> 20 for role, most in sorted(memory.most_of_each.items())},
        },
        "end_s": round(ended_s, 2),
        "minutes": round(took_s / 60, 1),
        "answers": dict(sorted(judge.answers.items())),
        "found": judge.found,
        "findings": judge.findings,
    }


def shown(result: Mapping[str, Any]) -> str:
    """Return the result without its long lists."""
    return json.dumps({name: value for name, value in result.items() if name not in ("answers", "findings")}, indent=1)
