"""Whether the service can do its work: its disk takes what is written, its database answers and is whole.

Asked by monitors, whatever else goes on: in a thread of its own, one look at a time, which everybody who asks meanwhile
shares.
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
SHARED_S = 1.0  # an answer is good so long
PATIENCE_S = 5.0  # with one look; a monitor does not wait longer
LEAST_FREE = 16 * 2**20  # bytes: a repetition writes a few megabytes
FULL = "the disk below TAILOR_HOME is full"


class Readiness:
    """``check`` raises StoreError, StoreBusy where the database cannot be used."""

    def __init__(self, home: Path, check: Callable[[], None], now: Callable[[], float] = time.monotonic) -> None:
        self._home, self._check, self._now = home, check, now
        self._looking: Future[str] | None = None
        self._known, self._at = "", -math.inf

    async def missing(self) -> str:
        """Why the service is not ready; empty where it is."""
        if self._now() - self._at < SHARED_S:
            return self._known
        looking = self._looking
        if looking is None:
            looking = self._looking = Future()
            Thread(target=self._look, args=(looking,), name="readiness", daemon=True).start()
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(looking)), PATIENCE_S)
        except TimeoutError:
            return f"disk and database have not answered for {PATIENCE_S:g} s"

    def _look(self, looking: Future[str]) -> None:
        found = self._found()
        if found != self._known and found:  # once, not at each of a monitor's questions
            LOG.warning("the service is not ready", extra={"reason": found})
        self._known, self._at = found, self._now()
        self._looking = None
        looking.set_result(found)

    def _found(self) -> str:
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
    """Why nothing can be written there; empty where it can.  What is written is also sent to the disk."""
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
