"""Files by which the kernel shows and takes settings: cgroups, resctrl, /proc."""

from __future__ import annotations

from typing import Protocol


class KernelFiles(Protocol):
    """Reads and writes such files.  Every method raises KnobRefused with the kernel's own reason."""

    def read(self, path: str) -> str: ...

    def write(self, path: str, text: str) -> None:
        """Write a text at once: the kernel takes one write as one setting."""

    def exists(self, path: str) -> bool: ...

    def entries(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none where it does not exist."""

    def make(self, path: str) -> None:
        """Make a directory, which is a group; one that exists is left as it is."""

    def remove(self, path: str) -> None:
        """Remove a directory, which is a group; one that does not exist is none to remove."""
