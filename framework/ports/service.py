"""What the service keeps beside studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from framework.model.job import Job, Stop
from framework.model.token import Token


class JobQueue(Protocol):
    """Studies that wait for workers.  Every method is one transaction; raises StoreError's family."""

    def put(self, study: str, *, priority: int = 0, owner: str = "", resource: str = "") -> None:
        """Let a study wait; a stop that was asked for is taken back.  Raises NotFound, IllegalTransition."""

    def take(self, worker: str, engine: str, seconds: float) -> Job | None: ...
    def done(self, study: str, worker: str | None = None) -> None: ...
    def stopped(self, study: str, worker: str) -> bool:
        """A worker paused a study: it leaves the queue where that is still wanted (True), else it waits again."""

    def stop(self, study: str, how: Stop) -> Job: ...
    def stop_wanted(self, study: str) -> Stop: ...
    def set_progress(self, study: str, progress: Mapping[str, Any]) -> None: ...
    def progress(self, study: str) -> Mapping[str, Any] | None: ...
    def jobs(self) -> Sequence[Job]: ...


class TokenStore(Protocol):
    """Bearer tokens by name; raises StoreError's family."""

    def add(self, name: str, digest: str, scope: Literal["read", "run", "admin"]) -> None: ...
    def remove(self, name: str) -> None: ...
    def tokens(self) -> Sequence[Token]: ...
