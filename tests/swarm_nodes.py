"""Docker Engines of several hosts on one machine: a daemon in a network namespace of its own for each, in one swarm.

Each has its own data root, which may be a small file system of its own.  Needs root, and Debian's packages docker.io,
iproute2 and util-linux.  As a program: ``python -m tests.swarm_nodes up [NUMBER]``, ``down``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

NAME = "tailornode"
SWITCH = "tailorswitch"  # the namespace with the bridge: the machine's own firewall does not see its packets
STATE = Path("/run/tailor-nodes")
DATA = Path("/var/lib/tailor-nodes")
NETWORK = "10.213.77"
UP_S = 60.0
# A daemon sees the interfaces of its own namespace in /sys, and the machine's control groups.
START = """
mkdir -p {state}/cgroup && mount --rbind /sys/fs/cgroup {state}/cgroup
mount -t sysfs sysfs /sys && mount --rbind {state}/cgroup /sys/fs/cgroup
exec dockerd --data-root {data} --exec-root {state}/exec --pidfile {state}/pid \
  -H unix://{state}/docker.sock --userland-proxy=false --storage-driver overlay2 {options}
"""


def missing() -> str:
    """Say why engines in namespaces cannot be started here; empty where they can."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    for program in ("dockerd", "ip", "nsenter", "unshare"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    probe = _run("ip", "netns", "add", f"{NAME}probe", check=False)
    if probe.returncode:
        return f"no network namespaces: {probe.stderr.strip()}"
    vxlan = _inside(
        f"{NAME}probe", "ip", "link", "add", "v", "type", "vxlan", "id", "1", "dstport", "4789", check=False
    )
    _run("ip", "netns", "del", f"{NAME}probe")
    return f"no VXLAN: {vxlan.stderr.strip()}" if vxlan.returncode else ""


class Node:
    """One engine.  ``number``: from 1.  ``options``: of its daemon, more than it needs."""

    def __init__(self, number: int, options: str = "") -> None:
        self._options = options
        self.number = number
        self.namespace = f"{NAME}{number}"
        self.address = f"{NETWORK}.{number}"
        self.state, self.data = STATE / str(number), DATA / str(number)
        self.socket = f"unix://{self.state}/docker.sock"

    def docker(self, *arguments: str, check: bool = True, timeout_s: float = 120) -> str:
        """Run the docker command on this engine; return its output.  Raises CalledProcessError."""
        done = _run("docker", "-H", self.socket, *arguments, check=check, timeout=timeout_s)
        return done.stdout.strip()

    def start(self) -> None:
        """Start the daemon, in its namespace."""
        self.state.mkdir(parents=True, exist_ok=True)
        self.data.mkdir(parents=True, exist_ok=True)
        (self.state / "pid").unlink(missing_ok=True)
        script = START.format(state=self.state, data=self.data, address=self.address, options=self._options)
        inside = ("nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--mount", "--propagation", "slave")
        with (self.state / "log").open("ab") as log:
            subprocess.run(["setsid", "--fork", *inside, "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=log,
                           stderr=log, check=True)  # fmt: skip

    def wait(self) -> None:
        """Wait until the engine answers.  Raises TimeoutError with the last lines of its log."""
        deadline = time.monotonic() + UP_S
        while not self.docker("version", "--format", "{{.Server.Version}}", check=False):
            if time.monotonic() > deadline:
                log = (self.state / "log").read_text(errors="replace").splitlines()[-10:]
                raise TimeoutError(f"engine {self.number} did not come up:\n" + "\n".join(log))
            time.sleep(0.2)

    def end(self, how: int = signal.SIGTERM) -> None:
        """End the daemon and, after SIGKILL too, its containers' daemon; return when it is gone."""
        number = _pid(self.state / "pid")
        if number:
            with suppress(ProcessLookupError):
                os.kill(number, how)
            _wait_gone(number)

    def end_containers(self) -> None:
        """End what a killed daemon left running: its containers, then their daemon."""
        for path in (self.state / "exec" / "containerd").glob("**/init.pid"):
            _kill(_pid(path))
        _kill(_pid(self.state / "exec" / "containerd" / "containerd.pid"))
        for process in _processes(str(self.state)):
            _kill(process)

    def link(self, state: str) -> None:
        """Set the link between this node and the others "up" or "down"."""
        _inside(SWITCH, "ip", "link", "set", f"port{self.number}", state)

    def load(self, images: Sequence[str]) -> None:
        """Copy images from the machine's own engine."""
        load = ["docker", "-H", self.socket, "load", "--quiet"]
        with subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE) as save:
            subprocess.run(load, stdin=save.stdout, stdout=subprocess.DEVNULL, check=True, timeout=300)
        if save.returncode:
            raise RuntimeError(f"cannot save {', '.join(images)}")

    def inside(self, *command: str) -> list[str]:
        """Return a command that runs in this node's network namespace, where its containers are reached."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *command]

    def node_id(self) -> str:
        return self.docker("info", "--format", "{{.Swarm.NodeID}}")


class Nodes:
    """Engines 1 to ``count``, joined to one swarm; the first is its manager.

    ``mib``: size of each one's disk.  ``joined``: False leaves each in a swarm of its own.  ``options``: of daemons.
    """

    def __init__(
        self, count: int = 4, mib: int | None = None, managers: int = 1, *, joined: bool = True, options: str = ""
    ) -> None:
        self.nodes = [Node(number, options) for number in range(1, count + 1)]
        self._mib, self._managers, self._joined = mib, managers, joined

    def __enter__(self) -> Nodes:
        remove()
        try:
            self._start()
        except BaseException:
            remove()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        remove()

    def __getitem__(self, number: int) -> Node:
        """Return engine ``number``, from 1."""
        return self.nodes[number - 1]

    def _start(self) -> None:
        _run("ip", "netns", "add", SWITCH)
        _inside(SWITCH, "ip", "link", "add", "bridge", "type", "bridge")
        _inside(SWITCH, "ip", "link", "set", "bridge", "up")
        for node in self.nodes:
            _run("ip", "netns", "add", node.namespace)
            _inside(SWITCH, "ip", "link", "add", f"port{node.number}", "type", "veth", "peer", "name", "eth0", "netns",
                    node.namespace)  # fmt: skip
            _inside(SWITCH, "ip", "link", "set", f"port{node.number}", "master", "bridge", "up")
            _inside(node.namespace, "ip", "link", "set", "lo", "up")
            _inside(node.namespace, "ip", "address", "add", f"{node.address}/24", "dev", "eth0")
            _inside(node.namespace, "ip", "link", "set", "eth0", "up")
            _inside(node.namespace, "ip", "route", "add", "default", "via", f"{NETWORK}.254")
            if self._mib:
                _disk(node.data, self._mib)
            node.start()
        for node in self.nodes:
            node.wait()
        first = self.nodes[0]
        for node in self.nodes[:1] if self._joined else self.nodes:
            node.docker("swarm", "init", "--advertise-addr", node.address, "--listen-addr", f"{node.address}:2377")
        for node in self.nodes[1:] if self._joined else ():
            role = "manager" if node.number <= self._managers else "worker"
            token = first.docker("swarm", "join-token", "-q", role)
            node.docker("swarm", "join", "--token", token, "--advertise-addr", node.address, "--listen-addr",
                        f"{node.address}:2377", f"{first.address}:2377")  # fmt: skip

    def label(self, hosts: Sequence[str]) -> None:
        """Give the nodes, in order, the label ``tailor.host``."""
        for node, host in zip(self.nodes, hosts, strict=False):
            self.nodes[0].docker("node", "update", "--label-add", f"tailor.host={host}", node.node_id())


def remove() -> None:
    """Remove all engines, their namespaces and their data, whatever state they are in."""
    nodes = [Node(int(path.name)) for path in STATE.glob("[0-9]*")] if STATE.exists() else []
    for node in nodes:
        with suppress(subprocess.SubprocessError):
            node.docker("swarm", "leave", "--force", check=False, timeout_s=20)
            if running := node.docker("ps", "-q", check=False, timeout_s=20).split():
                node.docker("kill", *running, check=False, timeout_s=20)
    for node in nodes:
        if number := _pid(node.state / "pid"):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGTERM)
    for node in nodes:
        _wait_gone(_pid(node.state / "pid"), 15)
        node.end_containers()
    for line in _run("ip", "netns", "list").stdout.splitlines():
        name = line.split()[0]
        if name.startswith(NAME) or name == SWITCH:
            _run("ip", "netns", "del", name)
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for path in sorted((p for p in mounted if p.startswith((f"{STATE}/", f"{DATA}/"))), reverse=True):
        _run("umount", "--lazy", path, check=False)
    shutil.rmtree(STATE, ignore_errors=True)
    shutil.rmtree(DATA, ignore_errors=True)


def _disk(directory: Path, mib: int) -> None:
    """Mount a file system of its own at a directory, in memory: a full one harms nobody else."""
    directory.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={mib}m", "tailor-node", str(directory))


def _inside(namespace: str, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return _run("nsenter", f"--net=/run/netns/{namespace}", *command, check=check)


def _run(*command: str, check: bool = True, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done


def _pid(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def _kill(number: int) -> None:
    if number:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
        _wait_gone(number, 5)


def _processes(directory: str) -> list[int]:
    """Return the processes whose command line names a directory."""
    numbers = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{directory}/" in (path / "cmdline").read_text(errors="replace") and int(path.name) != os.getpid():
                numbers.append(int(path.name))
    return numbers


def _wait_gone(number: int, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while number and Path(f"/proc/{number}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)


def main(arguments: Sequence[str]) -> int:
    """Start or remove engines; tells their addresses."""
    if arguments[:1] == ["down"]:
        remove()
        return 0
    if arguments[:1] != ["up"]:
        print(__doc__, file=sys.stderr)
        return 2
    if why := missing():
        print(why, file=sys.stderr)
        return 1
    nodes = Nodes(int(arguments[1]) if len(arguments) > 1 else 4)
    nodes.__enter__()
    print(json.dumps({node.number: node.socket for node in nodes.nodes}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
