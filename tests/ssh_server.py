"""An SSH server of this process, to whose login nothing of the user's belongs: keys and known hosts are its own.

It forwards connections to sockets of this machine and runs ``cat``, which is what Tailor asks of one.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

import asyncssh

ADDRESS = "127.0.0.1"


def missing() -> str:
    """Say why it cannot be reached here; empty where it can."""
    return "" if shutil.which("ssh") else "no ssh is installed"


class _Server(asyncssh.SSHServer):
    def __init__(self, forwards: bool) -> None:
        self._forwards = forwards

    def unix_connection_requested(self, dest_path: str) -> bool:
        return self._forwards


class SshServer:
    """``directory``: for keys and for the ``ssh`` that knows them.  ``forwards``: False refuses to forward sockets."""

    def __init__(self, directory: Path, *, forwards: bool = True) -> None:
        self._directory, self._forwards = directory, forwards
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self.port = 0
        self.logins: list[asyncssh.SSHServerConnection] = []

    def __enter__(self) -> SshServer:
        self._directory.mkdir(parents=True, exist_ok=True)
        host, user = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        user.write_private_key(str(self._directory / "key"))
        (self._directory / "key").chmod(0o600)
        user.write_public_key(str(self._directory / "authorized"))
        self._thread.start()
        self._acceptor = asyncio.run_coroutine_threadsafe(self._listen(host), self._loop).result(30)
        self.port = self._acceptor.get_port()
        public = host.export_public_key().decode().strip()
        (self._directory / "known_hosts").write_text(f"[{ADDRESS}]:{self.port} {public}\n")
        (self._directory / "config").write_text(
            f"IdentityFile {self._directory}/key\nIdentitiesOnly yes\n"
            f"UserKnownHostsFile {self._directory}/known_hosts\n"
        )
        wrapper = self._directory / "bin" / "ssh"
        wrapper.parent.mkdir(exist_ok=True)
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F "{self._directory}/config" "$@"\n')
        wrapper.chmod(0o755)
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(10)
        self._loop.close()

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment of a process whose ``ssh`` may log in here."""
        return {"PATH": f"{self._directory / 'bin'}:{os.environ['PATH']}"}

    def url(self, path: str) -> str:
        """Return the endpoint of a socket."""
        return f"ssh://tester@{ADDRESS}:{self.port}{path}"

    def drop(self) -> None:
        """End all connections, as a lost network does."""
        self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        for login in self.logins:
            login.abort()

    def _end(self) -> None:
        self._abort()
        if self._acceptor is not None:
            self._acceptor.close()
        self._loop.call_later(0.1, self._loop.stop)

    async def _listen(self, host: asyncssh.SSHKey) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            ADDRESS, 0, server_factory=lambda: _Server(self._forwards), server_host_keys=[host],
            authorized_client_keys=str(self._directory / "authorized"), process_factory=_cat, encoding=None,
            acceptor=self.logins.append,
        )  # fmt: skip


async def _cat(process: asyncssh.SSHServerProcess[bytes]) -> None:
    if process.command != "cat":
        process.exit(127)
        return
    while part := await process.stdin.read(4096):
        process.stdout.write(part)
    process.exit(0)
