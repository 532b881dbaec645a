"""The output and the exit code of a command that the engine ran in a container."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator

import docker

from framework.errors import DeploymentFailed

EXIT_POLLS, EXIT_POLL_S = 100, 0.05  # for the exit code of a command that has closed its output


def frames(reader: io.BufferedReader) -> Iterator[bytes]:
    """Yield the parts of a command's output: before each are eight bytes, the last four of which are its length."""
    while len(header := reader.read(8)) == 8:
        yield reader.read(int.from_bytes(header[4:], "big"))


def exit_code(api: docker.APIClient, process: str) -> int:
    """Return the exit code of a command whose output has ended; the command itself may end a moment later."""
    for _ in range(EXIT_POLLS):
        about = api.exec_inspect(process)
        if about["ExitCode"] is not None:
            return int(about["ExitCode"])
        time.sleep(EXIT_POLL_S)
    raise DeploymentFailed("a command in a container closed its output and goes on")
