"""Failure of a check of the conformance kit."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.trial import Suggestion


class ConformanceFailure(AssertionError):
    """The optimizer breaks a promise of the interface.  Mend the optimizer, or the capability that it declares."""


def require(condition: bool, message: str) -> None:
    """Raise ConformanceFailure with the message where the condition does not hold."""
    if not condition:
        raise ConformanceFailure(message)


def keys_of(suggestions: Sequence[Suggestion]) -> list[str]:
    """Return the keys of the configurations that were suggested."""
    return [suggestion.configuration.key() for suggestion in suggestions]
