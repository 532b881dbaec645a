"""Probes of running services: whether they are ready, which value a parameter has, how many hits a cache had.

One request (a command, a text sent to a port, an HTTP path) to one container is made once per round, however many
patterns are matched with its answer: a database's seven parameters cost one query.
"""

from __future__ import annotations

import http.client
import re
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from framework.errors import DeploymentFailed
from framework.model import Container, Probe
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.listed import SERVICE
from framework.testbeds.docker.owner import PROJECT
from optimizer.space import Value

PROC = Path("/proc")
TIMEOUT_S = 5.0  # for one request; a healthy service answers within milliseconds
MAX_ANSWER = 4 << 20  # bytes

LISTENS = "listens"
_LISTEN = "0A"  # state of a socket in /proc/net/tcp (include/net/tcp_states.h)
_NAME_SERVER = "0B00007F:"  # 127.0.0.11, where Docker answers for names in every container

_TRUE = frozenset({"true", "on", "yes", "1", "enabled"})
_FALSE = frozenset({"false", "off", "no", "0", "disabled"})

Request = tuple[str, str, tuple[str, ...], int | str | None, str, str, str]


class NoAnswer(Exception):
    """A probe without an answer, or with one that its pattern does not match.  The caller decides what that means."""


class NoTool(NoAnswer):
    """A command that a container does not have: an image without a shell, or without the server's own tool."""


def request(service: str, probe: Probe) -> Request:
    """Return the part of a probe that is sent, without its pattern: equal requests are made once."""
    return (service, probe.kind, probe.command, probe.port, probe.send, probe.until, probe.path)


def answers(
    engine: Engine, containers: Mapping[str, Container], wanted: Iterable[tuple[str, Probe]]
) -> dict[Request, str | NoAnswer]:
    """Make each distinct request of (service, probe), in parallel; returns request -> answer, or why there is none."""
    distinct = {request(service, probe): (service, probe) for service, probe in wanted}

    def answer(item: tuple[str, Probe]) -> str | NoAnswer:
        service, probe = item
        try:
            container = containers.get(service)
            if container is None:
                raise NoAnswer(f"service {service} has no container")
            return ask(engine, container.id, container.address, probe)
        except NoAnswer as error:
            return error

    return dict(zip(distinct, in_parallel(answer, distinct.values()), strict=True))


def ask(engine: Engine, container: str, address: str, probe: Probe, timeout_s: float = TIMEOUT_S) -> str:
    """Send a probe to one container; returns the whole answer.  Raises NoAnswer."""
    if probe.kind == "command":
        return _command(engine, container, probe.command)
    if probe.kind == "cpus":
        return _cpus(engine, container)
    if probe.kind == "listens":
        return _listens(engine, container)
    if probe.kind == "engine":
        return _given_by_the_engine(engine, container, probe.path)
    if probe.port is None:
        raise NoAnswer(f"a {probe.kind} probe needs a port")
    if not address:
        raise NoAnswer("the container has no address")
    if probe.kind == "tcp":
        return send(address, int(probe.port), probe.send, probe.until, timeout_s)
    return _get(address, int(probe.port), probe.path, timeout_s)


def _command(engine: Engine, container: str, command: Sequence[str]) -> str:
    try:
        code, output = engine.execute(container, command)
    except DeploymentFailed as error:
        missing = "executable file not found" in error.reason or "no such file or directory" in error.reason
        raise (NoTool if missing else NoAnswer)(error.reason) from error
    if code in (126, 127):
        said = output.strip()[-200:]
        missing = not said or "executable file not found" in output
        raise NoTool(f"{command[0]} or what it runs is not in the container" if missing else said)
    if code != 0:
        raise NoAnswer(f"{' '.join(command)} ended with {code}: {output.strip()[-300:]}")
    return output


def _cpus(engine: Engine, container: str, proc: Path = PROC) -> str:
    """Read the CPU list of a container's first process from the kernel; where it runs elsewhere, from the engine."""
    about = engine.inspect(container)
    if about is None:
        raise NoAnswer("its container is gone")
    directory = proc / str((about.get("State") or {}).get("Pid") or 0)
    try:
        if container[:12] in (directory / "cgroup").read_text():  # else another machine's process with this number
            for line in (directory / "status").read_text().splitlines():
                if line.startswith("Cpus_allowed_list:"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return str((about.get("HostConfig") or {}).get("CpusetCpus") or "")


def listens(engine: Engine, container: str, proc: Path = PROC) -> bool:
    """Return whether a program in a running container listens on a TCP port; True where this machine cannot tell."""
    try:
        return bool(_listens(engine, container, proc))
    except NoAnswer:
        return False


def _listens(engine: Engine, container: str, proc: Path = PROC) -> str:
    """Return "listens" where a container listens on a TCP port, and where this machine's kernel cannot tell."""
    about = engine.inspect(container)
    if about is None:
        raise NoAnswer("its container is gone")
    state = about.get("State") or {}
    if not state.get("Running"):
        raise NoAnswer("its container does not run")
    directory = proc / str(state.get("Pid") or 0)
    try:
        if container[:12] not in (directory / "cgroup").read_text():
            return LISTENS  # another machine's process with this number
        tables = [
            (directory / "net" / name).read_text() for name in ("tcp", "tcp6") if (directory / "net" / name).exists()
        ]
    except OSError:
        return LISTENS
    if not tables:
        return LISTENS
    sockets = [line.split() for table in tables for line in table.splitlines()[1:]]
    if any(row[3] == _LISTEN and not row[1].startswith(_NAME_SERVER) for row in sockets if len(row) > 3):
        return LISTENS
    raise NoAnswer("it listens on no port yet")


def _given_by_the_engine(engine: Engine, container: str, resource: str) -> str:
    """Return what the engine gives a container of a resource, empty for no limit.

    CPUs as a number, memory in bytes, the soft limit of a ulimit.  What the kernel cannot do, the engine has set to 0.
    """
    about = engine.inspect(container)
    if about is None:
        raise NoAnswer("its container is gone")
    given = about.get("HostConfig") or {}
    kind, _, name = resource.partition(":")
    if kind == "ulimit":
        limits = {limit.get("Name"): limit.get("Soft") for limit in given.get("Ulimits") or []}
        return str(limits.get(name, ""))
    if kind == "sysctl":
        return str((given.get("Sysctls") or {}).get(name, ""))
    if resource == "replicas":
        labels = (about.get("Config") or {}).get("Labels") or {}
        containers = engine.containers(f"{PROJECT}={labels.get(PROJECT, '')}")
        return str(sum(other.service == labels.get(SERVICE) and other.state == "running" for other in containers))
    amount = given.get("NanoCpus") if resource == "cpus" else given.get("Memory")
    if not amount:
        return ""
    return f"{amount / 1e9:.9g}" if resource == "cpus" else str(amount)


def send(address: str, port: int, text: str, until: str, timeout_s: float = TIMEOUT_S) -> str:
    """Send text to a port and read until the regular expression ``until`` matches or the peer closes.

    ``until``: empty: the end of a line.  Raises NoAnswer.
    """
    deadline = time.monotonic() + timeout_s
    end = re.compile(until or r"\n", re.M)
    received = b""
    try:
        with socket.create_connection((address, port), timeout=timeout_s) as connection:
            connection.sendall(text.encode())
            while not end.search(received.decode(errors="replace")):
                left = deadline - time.monotonic()
                if left <= 0 or len(received) > MAX_ANSWER:
                    raise NoAnswer(f"port {port}: no end of the answer within {timeout_s:g} s")
                connection.settimeout(left)
                part = connection.recv(65536)
                if not part:
                    break
                received += part
    except OSError as error:
        raise NoAnswer(f"port {port}: {error.strerror or error}") from error
    return received.decode(errors="replace")


def _get(address: str, port: int, path: str, timeout_s: float) -> str:
    connection = http.client.HTTPConnection(address, port, timeout=timeout_s)
    try:
        connection.request("GET", path or "/", headers={"Connection": "close"})
        reply = connection.getresponse()
        text = reply.read(MAX_ANSWER).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(f"http port {port}{path}: {error}") from error
    finally:
        connection.close()
    if reply.status >= 400:
        raise NoAnswer(f"http port {port}{path}: status {reply.status}")
    return text


# --------------------------------------------------------------------------- from an answer to a value


def parse(probe: Probe, answer: str, like: Value) -> Value:
    """Parse the value in an answer, of the type of ``like``.  Raises NoAnswer when there is no single match."""
    matches = {match.group(1) if match.re.groups else match.group(0)
               for match in re.finditer(probe.pattern, answer, re.M)}  # fmt: skip
    if not matches:
        if probe.absent is not None:
            return probe.absent
        raise NoAnswer(f"no match of {probe.pattern!r} in {_short(answer)!r}")
    values = {_value(probe, (match or "").strip(), like) for match in matches}
    if len(values) > 1:
        raise NoAnswer(f"several values: {', '.join(sorted(map(str, values)))}")
    return values.pop()


def _value(probe: Probe, text: str, like: Value) -> Value:
    if text in probe.words:
        return probe.words[text]
    if isinstance(like, bool):
        word = text.lower()
        return True if word in _TRUE else False if word in _FALSE else text
    if isinstance(like, str):
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    scaled = number * probe.multiply
    return int(scaled) if scaled.is_integer() else scaled


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 200 else f"{flat[:200]}..."
