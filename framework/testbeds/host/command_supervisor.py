"""Program that runs one attempt of a job that is a command of this machine, and outlives the guard that started it.

It stands alone and needs the standard library only: it is started by its path, so that it takes little memory beside
the service.  It joins the attempt's control groups before the command exists, lets go of root in the child, keeps the
last output, and writes how the command ended.

Sources: credentials(7), setresuid(2), prctl(2) (PR_SET_NO_NEW_PRIVS), proc(5), environ(7).
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

ATTEMPT, PROCESS, STATUS, LOCK, OUTPUT = "attempt.json", "process.json", "status.json", "lock", "output"
OLDER = ".1"  # of the output's file that is full
OUTPUT_BYTES = 5 * 2**20  # of one file of output; two are kept
MOST_LEFT = 16  # pieces that are still read after the command's end: a process that it left may write for ever
PIECE = 65_536
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NO_COMMAND, NOT_STARTED, SIGNALLED = 127, 126, 128  # exit statuses, as of a shell
PR_SET_NO_NEW_PRIVS = 38
OUT_OF_MEMORY = "killed: it used more memory than it may"
BEGUN = b"begun"


def main(directory: Path, lock: int) -> int:
    """Run the attempt of a directory, whose lock is the descriptor ``lock``; returns 0 when it has begun.

    The process that goes on is a child of this one, and so, after this one's end, nobody's: its end leaves no zombie
    to the guard.
    """
    told, tell = os.pipe()
    if os.fork() == 0:
        os.close(told)
        os.set_inheritable(lock, False)
        try:
            _supervise(directory, tell)
        finally:
            os._exit(0)
    os.close(tell)
    os.close(lock)
    with os.fdopen(told, "rb") as answers:
        answer = answers.read()
    if answer == BEGUN:
        return 0
    sys.stderr.write(answer.decode(errors="replace") or "it was killed")
    return 1


def _supervise(directory: Path, tell: int) -> None:
    step = "the attempt's description"
    try:
        attempt = json.loads((directory / ATTEMPT).read_text())
        write(directory / PROCESS, {"pid": os.getpid(), "started": started(os.getpid())})
        for group in attempt["groups"]:
            step = f"its control group {group}"
            (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    except (OSError, ValueError, KeyError) as error:
        os.write(tell, f"{step}: {error}".encode(errors="replace"))
        return
    os.write(tell, BEGUN)
    os.close(tell)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    output = Output(directory / OUTPUT)
    status, reason = _run(attempt, output)
    output.close()
    if status and _killed_for_memory(attempt["memory_events"]):
        reason = OUT_OF_MEMORY
    write(directory / STATUS, {"status": status, "reason": reason})


def _run(attempt: dict[str, Any], output: Output) -> tuple[int, str]:
    """Run the command to its end; returns its exit status, and why it could not be started."""
    wakes, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    written, writes = os.pipe()
    failed, fails = os.pipe()
    child = os.fork()
    if child == 0:
        _become(attempt, writes, fails)
    os.close(writes)
    os.close(fails)
    with os.fdopen(failed, "rb") as failures:
        failure = failures.read()
    status = os.waitstatus_to_exitcode(_until_ended(child, written, wakes, output))
    if failure:
        return status, failure.decode(errors="replace")
    return (SIGNALLED - status if status < 0 else status), ""


def _until_ended(child: int, written: int, wakes: int, output: Output) -> int:
    """Keep the command's output until it ends; returns its wait status."""
    poll = select.poll()
    for descriptor in (written, wakes):
        poll.register(descriptor, select.POLLIN)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        for descriptor, _ in poll.poll():
            piece = os.read(descriptor, PIECE)
            if descriptor == written and piece:
                output.add(piece)
            elif descriptor == written:  # the command has closed it
                poll.unregister(written)
    os.set_blocking(written, False)
    with suppress(BlockingIOError):
        for _ in range(MOST_LEFT):
            output.add(os.read(written, PIECE))
    return status


def _become(attempt: dict[str, Any], output: int, fails: int) -> None:
    """Become the command; never returns.  Where that fails, its reason goes to ``fails``, which the command's start
    closes.
    """
    command, status = attempt["command"], NOT_STARTED
    step = f"it could not become {attempt['user']}"
    try:
        os.setsid()
        _as_any_process(output)
        if not attempt["uid"] or not attempt["gid"]:
            raise ValueError("no job runs as root")
        os.setgroups([])
        os.setresgid(attempt["gid"], attempt["gid"], attempt["gid"])
        os.setresuid(attempt["uid"], attempt["uid"], attempt["uid"])
        _no_new_privileges()
        step = f"{attempt['user']} cannot enter the directory {attempt['directory']}"
        os.chdir(attempt["directory"])
        step = f"the command {command[0]!r} could not be started as {attempt['user']}"
        os.execvpe(command[0], command, attempt["environment"])
    except (OSError, ValueError) as error:
        reason = f"{step}: {getattr(error, 'strerror', None) or error}"
        if isinstance(error, FileNotFoundError) and step.startswith("the command"):
            where = "" if "/" in command[0] else f" in {attempt['environment'].get('PATH', os.defpath)}"
            reason, status = f"there is no command {command[0]!r}{where}", NO_COMMAND
        os.write(fails, reason.encode(errors="replace"))
    finally:
        os._exit(status)


def _as_any_process(output: int) -> None:
    """Give the child what a command expects: input, output, umask, signals; it goes first where memory runs out."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.umask(0o022)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores these two
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Path("/proc/self/oom_score_adj").write_text("1000")


def _no_new_privileges() -> None:
    """Let no program that is started from here on get more privileges, such as by a setuid bit."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _killed_for_memory(events: str) -> bool:
    """Return whether the kernel killed a process of the group for the group's memory.

    ``events``: memory.oom_control (v1) or memory.events (v2); empty without a limit.
    """
    try:
        counts = [line.split() for line in Path(events).read_text().splitlines()] if events else []
    except OSError:
        return False
    return any(words[0] == "oom_kill" and words[1] != "0" for words in counts if len(words) == 2)


class Output:
    """Output in a file; when that is full it becomes the older one, and what was older goes."""

    def __init__(self, path: Path, most: int = OUTPUT_BYTES) -> None:
        self._path, self._most = path, most
        self._file = path.open("wb", buffering=0)
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Write a piece; what a full disk does not take is lost, and the command goes on."""
        with suppress(OSError, ValueError):  # ValueError: the last one was closed, and no new one could be made
            if self._size + len(piece) > self._most:
                self._file.close()
                self._path.replace(self._path.with_name(self._path.name + OLDER))
                self._file = self._path.open("wb", buffering=0)
                self._size = 0
            self._file.write(piece)
            self._size += len(piece)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a file at once: it is there as a whole or not at all.  Raises OSError."""
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(content))
    new.replace(path)


def started(pid: int) -> str:
    """Return when a process started (proc(5), stat, field 22).  Raises OSError."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
