"""Stores of the service: its job queue and its tokens."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

from framework.model.job import Job, Stop
from framework.model.token import Token


class JobQueue(Protocol):
    """Studies that wait for workers.  Every method is one transaction, and raises StoreError and its subclasses."""

    def put(self, study: str, *, priority: int = 0, owner: str = "", resource: str = "") -> None:
        """Queue a study; cancel a stop that was requested.  Raises NotFound, IllegalTransition."""

    def take(self, worker: str, engine: str, seconds: float, able: Collection[str] | None = None) -> Job | None:
        """Lease the next job, of those that the worker is ``able`` to do (None: all); None where there is none."""

    def done(self, study: str, worker: str | None = None) -> None: ...
    def stopped(self, study: str, worker: str) -> bool:
        """Remove a study that a worker paused; queue it again if the stop was cancelled.  Return whether it left."""

    def stop(self, study: str, how: Stop) -> Job: ...
    def stop_wanted(self, study: str) -> Stop: ...
    def set_progress(self, study: str, progress: Mapping[str, Any]) -> None: ...
    def progress(self, study: str) -> Mapping[str, Any] | None: ...
    def jobs(self) -> Sequence[Job]: ...


class TokenStore(Protocol):
    """Bearer tokens by name.  Every method raises StoreError and its subclasses."""

    def add(self, name: str, digest: str, scope: Literal["read", "run", "admin"]) -> None: ...
    def remove(self, name: str) -> None: ...
    def tokens(self) -> Sequence[Token]: ...
