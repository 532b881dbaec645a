"""Readiness: the disk can be written, and the database answers and is intact.

Monitors get an answer whatever else goes on: each check has a thread of its own.  There is one check at a time, which
all requests share that come meanwhile.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread

from framework.errors import StoreBusy, TailorError

LOG = logging.getLogger("tailor.api")
TTL_S = 1.0  # of an answer
PATIENCE_S = 5.0  # with one check; a monitor does not wait longer
LEAST_FREE = 16 * 2**20  # bytes: a repetition writes a few megabytes
FULL = "the disk below TAILOR_HOME is full"


class Readiness:
    """Checks the disk of ``home`` and the database; ``check`` raises StoreError, StoreBusy where it cannot be used."""

    def __init__(self, home: Path, check: Callable[[], None], now: Callable[[], float] = time.monotonic) -> None:
        self._home, self._check, self._now = home, check, now
        self._running: Future[str] | None = None
        self._known, self._at = "", -math.inf

    async def missing(self) -> str:
        """Return why the service is not ready; empty where it is."""
        if self._now() - self._at < TTL_S:
            return self._known
        running = self._running
        if running is None:
            running = self._running = Future()
            Thread(target=self._run, args=(running,), name="readiness", daemon=True).start()
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(running)), PATIENCE_S)
        except TimeoutError:
            return f"disk and database have not answered for {PATIENCE_S:g} s"

    def _run(self, running: Future[str]) -> None:
        reason = self._reason()
        if reason != self._known and reason:  # once, not at each of a monitor's requests
            LOG.warning("the service is not ready", extra={"reason": reason})
        self._known, self._at = reason, self._now()
        self._running = None
        running.set_result(reason)

    def _reason(self) -> str:
        try:
            return _disk(self._home) or self._database()
        except Exception:  # whatever it is, the service is not ready
            LOG.exception("readiness cannot be found out")
            return "it cannot be found out"

    def _database(self) -> str:
        try:
            self._check()
        except StoreBusy as error:
            LOG.warning("the database does not answer", extra={"error": str(error)})
            return "the database does not answer"
        except TailorError as error:
            LOG.warning("the database cannot be used", extra={"error": str(error)})
            return "the database cannot be read and written"
        return ""


def _disk(home: Path) -> str:
    """Return why a file cannot be written and synced there; empty where it can."""
    try:
        if shutil.disk_usage(home).free < LEAST_FREE:
            return FULL
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else "TAILOR_HOME cannot be written"
    return ""
