"""Commands that tell a machine's power."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_S = 5.0  # a management controller answers within a second or two
NOT_THERE = 127  # exit status of a shell for a command that is not installed
NO_ANSWER = 124  # that of timeout(1)


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Output of a command, both streams, and its exit status."""

    status: int
    text: str


def run(command: Sequence[str]) -> CommandOutput:
    """Run a command without input.  Never raises: a status says that it is not installed, or does not end."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LONGEST_S, check=False, env=_ENGLISH,
        )  # fmt: skip
    except FileNotFoundError:
        return CommandOutput(NOT_THERE, f"{command[0]} is not installed")
    except subprocess.TimeoutExpired:
        return CommandOutput(NO_ANSWER, f"{command[0]} does not answer within {LONGEST_S:g} s")
    except OSError as error:
        return CommandOutput(NOT_THERE, f"{command[0]}: {error.strerror or error}")
    return CommandOutput(done.returncode, (done.stdout + done.stderr).decode(errors="replace"))


_ENGLISH = {"LC_ALL": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
