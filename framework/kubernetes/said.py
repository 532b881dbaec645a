"""Notes about a conversion: what has no counterpart, service by service, in plain words."""

from __future__ import annotations

from dataclasses import dataclass, field

ALL = ""
"""The service of a note that concerns all of them."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a reader of the manifests has to know.

    ``service``: its compose service, empty where it concerns all.  ``key``: the place in the compose file.
    ``refused``: the service would not work as it does in compose.
    """

    service: str
    key: str
    text: str
    refused: bool = False


@dataclass(slots=True)
class Said:
    """The notes of a conversion, in the order in which they were made, each once."""

    notes: list[Note] = field(default_factory=list)

    def say(self, service: str, key: str, text: str) -> None:
        """Note something that the reader has to know or to do."""
        self._add(Note(service, key, text))

    def refuse(self, service: str, key: str, text: str) -> None:
        """Note something without which the service does not work."""
        self._add(Note(service, key, text, refused=True))

    def _add(self, note: Note) -> None:
        if note not in self.notes:
            self.notes.append(note)
