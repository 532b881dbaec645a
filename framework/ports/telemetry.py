"""Where spans of Tailor's own work go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class SpanSink(Protocol):
    """Where spans of Tailor's own work go; it never keeps a study waiting, nor fails."""

    def begin(self, study: str, name: str, parent: object | None, attributes: Mapping[str, Any]) -> object: ...
    def end(self, span: object, attributes: Mapping[str, Any], error: str) -> None: ...
    def flush(self) -> None: ...
