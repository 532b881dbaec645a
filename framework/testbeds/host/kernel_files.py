"""The kernel's files of this machine."""

from __future__ import annotations

import os
from pathlib import Path

from framework.errors import KnobRefused


class HostKernelFiles:
    """Files below ``root``; implements ``framework.ports.kernel_files.KernelFiles``."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def read(self, path: str) -> str:
        try:
            return self._at(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise _refused(path, error) from error

    def write(self, path: str, text: str) -> None:
        """Write a text in one write(2).  Raises KnobRefused, also where the kernel took only a part of it."""
        data = text.encode()
        try:
            # As a shell's ">", but never O_CREAT: a knob that is not there is not made.
            file = os.open(self._at(path), os.O_WRONLY | os.O_TRUNC)
            try:
                taken = os.write(file, data)
            finally:
                os.close(file)
        except OSError as error:
            raise _refused(f"{path} = {text.strip()}", error) from error
        if taken != len(data):
            raise KnobRefused(path, f"only {taken} of {len(data)} bytes of {text.strip()!r} were taken")

    def exists(self, path: str) -> bool:
        try:
            return self._at(path).exists()
        except OSError:  # one that may not be looked at
            return False

    def entries(self, path: str) -> list[str]:
        try:
            return sorted(entry.name for entry in self._at(path).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _refused(path, error) from error

    def make(self, path: str) -> None:
        try:
            self._at(path).mkdir(exist_ok=True)
        except OSError as error:
            raise _refused(path, error) from error

    def remove(self, path: str) -> None:
        try:
            self._at(path).rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            raise _refused(path, error) from error

    def _at(self, path: str) -> Path:
        return self._root / path.lstrip("/")


def _refused(knob: str, error: Exception) -> KnobRefused:
    return KnobRefused(knob, getattr(error, "strerror", None) or str(error))
