"""Connection to the Docker Engine, which translates every failure of the docker library.

An engine that does not answer is asked again a few times, then TestbedUnavailable is raised.  A refusal is a
DeploymentFailed with the engine's own words; the answer about something that does not exist is None.
"""

from __future__ import annotations

import socket
import time
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import docker
import docker.errors
import requests.exceptions

from framework.errors import DeploymentFailed, TestbedUnavailable
from framework.testbeds.docker.endpoints import Endpoint

T = TypeVar("T")
R = TypeVar("R")

ATTEMPTS = 3  # an engine that restarts is back within a second or two
PAUSE_S = 0.3  # doubled after each attempt
TIMEOUT_S = 60  # for one call; a removal on a busy disk takes seconds
THREADS = 16  # more does not help: the engine itself serialises most of the work


def in_parallel(function: Callable[[T], R], items: Iterable[T], threads: int = THREADS) -> list[R]:
    """Return ``[function(item) for item in items]``, computed in threads.

    The first exception is raised after all are done.
    """
    listed = list(items)
    if not listed:
        return []
    with ThreadPoolExecutor(min(threads, len(listed))) as pool:
        return list(pool.map(function, listed))


class Connection:
    """A connection to an engine, made at first use.  ``endpoint``: see ``Endpoint``."""

    def __init__(self, attempts: int = ATTEMPTS, endpoint: str = "") -> None:
        self._attempts = attempts
        self.endpoint = Endpoint(endpoint)
        self._client: docker.APIClient | None = None

    def ask(self, what: str, call: Callable[[docker.APIClient], R]) -> R | None:
        """Return the answer; None when the engine says that the thing does not exist.  ``what``: the call, in words.

        Raises DeploymentFailed where it refuses, TestbedUnavailable where it does not answer.
        """
        problem = ""
        for attempt in range(self._attempts):
            if attempt:
                time.sleep(PAUSE_S * 2 ** (attempt - 1))
            try:
                return call(self.client())
            except (docker.errors.NotFound, docker.errors.NullResource):
                return None
            except docker.errors.APIError as error:
                raise DeploymentFailed(f"the engine could not {what}: {error.explanation or error}") from error
            except (requests.exceptions.RequestException, docker.errors.DockerException, OSError) as error:
                problem = str(error)
        engine = f"the Docker Engine {self.endpoint.name}" if self.endpoint.name else "the Docker Engine"
        said = self.endpoint.said()
        raise TestbedUnavailable(
            f"{engine} does not answer ({what}): {problem}{f' ({said})' if said and said not in problem else ''}"
        )

    def client(self) -> docker.APIClient:
        """Return the library's client, connected at the first call.  Raises the library's errors."""
        url = self.endpoint.url()  # opens a way that has closed
        if self._client is None:
            if url.startswith("unix://") and not self.endpoint.is_elsewhere:
                _knock(url.removeprefix("unix://"))
            self._client = docker.APIClient(url, version="auto", timeout=TIMEOUT_S, max_pool_size=THREADS)
            weakref.finalize(self, self._client.close)
        return self._client


def _knock(path: str) -> None:
    """Raise OSError where nothing listens at a socket: the library would leave one open for each attempt."""
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no {path}")
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(TIMEOUT_S)
        client.connect(path)
