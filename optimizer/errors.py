"""Errors of the optimizer library, named by what the caller does next.

OptimizerError
├── InvalidInput                refuse to start: the caller mends what it passed in
│   ├── InvalidSpace            a parameter, a constraint or a space that makes no sense
│   ├── InvalidValue            a value outside its parameter
│   ├── InvalidObservation      an observation that contradicts itself
│   ├── InvalidOption           an option that the algorithm does not have, or a value it does not take
│   ├── NotOfThisSpace          a known result that is no point of the space: leave it out
│   ├── LibraryMissing          an algorithm's library is not installed; the message says how to get it
│   └── UnknownOptimizer        a name that no plug-in has; the known ones are listed
├── PluginError                 refuse to start with this plug-in: uninstall it or have it mended
│   ├── NameCollision           two plug-ins claim one name
│   ├── PluginBroken            a plug-in cannot be imported or is not an Optimizer
│   └── InvalidSuggestion       a plug-in suggested something outside the space, infeasible or seen before
└── SearchExhausted             stop asking: there is nothing left to suggest
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class OptimizerError(Exception):
    """Root of the library's own errors."""


class InvalidInput(OptimizerError):
    """Something passed in cannot be used.  Refuse to start."""


class InvalidSpace(InvalidInput):
    """A parameter, a constraint or a search space makes no sense.  Mend the definition."""


class InvalidValue(InvalidInput):
    """A value does not fit its parameter.  The message names the parameter, the value and the allowed ones."""

    def __init__(self, parameter: str, found: object, allowed: str) -> None:
        self.parameter, self.found, self.allowed = parameter, found, allowed
        super().__init__(f"{parameter}: found {found!r}; allowed: {allowed}")


class InvalidObservation(InvalidInput):
    """An observation contradicts itself (a failed trial with a value, a value that is not finite)."""


class InvalidOption(InvalidInput):
    """An option that the algorithm does not know, or a value that it does not take."""


class NotOfThisSpace(InvalidInput):
    """A result from elsewhere is no point of the space.  Leave it out; the message says why."""


class LibraryMissing(InvalidInput):
    """An algorithm needs a library that is not installed.  Install what the message names."""


class UnknownOptimizer(InvalidInput):
    """No plug-in has this name.  The message lists the known ones and the nearest."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(sorted(known))
        near = difflib.get_close_matches(name, self.known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        super().__init__(f"unknown optimizer {name!r}{hint}; known: {', '.join(self.known) or 'none'}")


class PluginError(OptimizerError):
    """A plug-in is at fault.  Do not use it; the others work."""


class NameCollision(PluginError):
    """Two plug-ins claim one name.  Uninstall one of the distributions named."""


class PluginBroken(PluginError):
    """A plug-in cannot be imported or is not an Optimizer.  The message names its distribution."""


class InvalidSuggestion(PluginError):
    """An algorithm suggested a configuration that is outside the space, infeasible or a repetition: its bug."""


class SearchExhausted(OptimizerError):
    """There is nothing left to suggest.  Stop asking; the study ends with what it has."""
