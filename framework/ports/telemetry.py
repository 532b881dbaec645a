"""The sink of spans of Tailor's own work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class SpanSink(Protocol):
    """Receives spans of Tailor's own work; it never blocks a study and never raises."""

    def begin(self, study: str, name: str, parent: object | None, attributes: Mapping[str, Any]) -> object: ...
    def end(self, span: object, attributes: Mapping[str, Any], error: str) -> None: ...
    def flush(self) -> None: ...
