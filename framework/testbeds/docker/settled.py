"""The end of a first start: the entry answers, and the services have nothing left to do.

Readiness says that a port is open.  An application that installs itself goes on after that, and its data would be kept
half made.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from framework.model import Application, Running, Usage
from framework.ports.testbed import Progress

UNAVAILABLE = (502, 503, 504)  # statuses of a server in front of one that is not ready
ANSWER_S = 5.0  # for one request
PAUSE_S = 0.5  # between two requests, and between two readings of the CPU counters
IDLE_CORES = 0.2  # used by all services: less is what idle servers use
IDLE_READINGS = 2  # in a row
MOST_S = 60.0  # for services to become idle; some never are


def wait_until_settled(
    application: Application,
    running: Running,
    usage: Callable[[], Usage],
    timeout_s: float,
    progress: Progress,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until the entry answers, at most ``timeout_s``, and then until the services are idle, at most a minute.

    Returns in any case: whether the application works is for the trials to say.  Raises DeploymentFailed where a
    container ended.
    """
    deadline = now() + timeout_s
    progress("waiting for the entry to answer")
    while not answers(application, running) and now() < deadline:
        sleep(PAUSE_S)
    progress("waiting for the services to be idle")
    deadline, before, idle = now() + MOST_S, usage(), 0
    while idle < IDLE_READINGS and now() < deadline:
        sleep(PAUSE_S)
        after = usage()
        idle = idle + 1 if cores_used(before, after) < IDLE_CORES else 0
        before = after


def answers(application: Application, running: Running) -> bool:
    """Return whether the entry answers at all, whatever it says; also where its address is not known."""
    target = urlsplit(application.workload.target)
    container = running.containers.get(target.hostname or "") or running.containers.get(application.entry)
    if container is None or not container.address:
        return True
    port = target.port or (443 if target.scheme == "https" else 80)
    try:
        if target.scheme == "https":
            socket.create_connection((container.address, port), timeout=ANSWER_S).close()
            return True
        connection = http.client.HTTPConnection(container.address, port, timeout=ANSWER_S)
        try:
            connection.request("GET", "/", headers={"Host": target.netloc, "Connection": "close"})
            return connection.getresponse().status not in UNAVAILABLE
        finally:
            connection.close()
    except http.client.HTTPException:  # it talks, in another protocol
        return True
    except OSError:
        return False


def cores_used(before: Usage, after: Usage) -> float:
    """Return the CPUs that all services used between two readings."""
    seconds = (after.at_ns - before.at_ns) / 1e9
    used = sum(after.cpu_s[name] - before.cpu_s.get(name, 0.0) for name in after.cpu_s)
    return used / seconds if seconds > 0 else 0.0
