"""What can go wrong, named by what the caller does next.

TailorError
├── InputError                      refuse to start: the user mends the input
│   ├── FieldError                  a field of a request: what was found, what is allowed
│   ├── FileError                   a file: where, what was found, what is allowed
│   ├── UnknownName                 a name: the known ones are listed
│   └── MeasuredElsewhere           of a study that clients measure there is nothing to run, report or deploy
├── MissingPrerequisite             refuse to start: the user installs or builds something
├── TrialFailed                     mark the trial failed, tell the optimizer, go on
│   ├── DeploymentFailed            a service did not come up
│   ├── ParameterNotApplied         a parameter read back with another value
│   ├── LoadFailed                  the generator did not finish
│   ├── TracesMissing               spans could not be read
│   └── IncorrectAnswer             the application's own check failed: the configuration loses data
├── MeasurementInvalid              repeat the repetition (at most twice), then the trial has no value
├── Transient                       retry with back-off, then pause the study
│   ├── TestbedUnavailable
│   └── StoreBusy
├── StoreError                      a full disk, a bug or a race: say what was found, pause the study
│   ├── NotFound
│   └── IllegalTransition
└── Interrupted                     clean up, keep what is finished, exit
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path


class TailorError(Exception):
    """Root of Tailor's own errors; a library's exception never crosses its adapter."""


MOST_CHARACTERS = 5000  # of what a person reads


class FieldName(str):
    """A field of a request, in a message: whoever shows the message spells it as its user gave it, as a flag say."""

    __slots__ = ()


class InputError(TailorError):
    """Something the user gave cannot be used.  Refuse to start.  A message that repeats too much of it is cut.

    ``message``: its parts, of which a FieldName is a field.  ``field``: by default the first of them, empty where the
    error is of no field.  ``found``, ``allowed``: None and empty where the message alone says it.
    """

    def __init__(self, *message: str, field: str = "", found: object = None, allowed: str = "") -> None:
        super().__init__(*message)
        named = (str(part) for part in message if isinstance(part, FieldName))
        self.field = field or next(named, "")
        self.found, self.allowed = found, allowed

    def __str__(self) -> str:
        return self.worded(str)

    def worded(self, spelled: Callable[[str], str]) -> str:
        """The message with each field's name as ``spelled`` writes it."""
        message = "".join(spelled(part) if isinstance(part, FieldName) else part for part in self.args)
        more = len(message) - MOST_CHARACTERS
        return message if more <= 0 else f"{message[:MOST_CHARACTERS]} ... ({more} characters more)"


class FieldError(InputError):
    """A field of a request cannot be used: names the field, what was found and what is allowed."""

    def __init__(self, field: str, found: object, allowed: str) -> None:
        super().__init__(FieldName(field), f": found {found!r}; allowed: {allowed}", found=found, allowed=allowed)


class FileError(InputError):
    """A file cannot be used: names the file, the key path, what was found and what is allowed."""

    def __init__(self, file: Path | str, key: str, found: object, allowed: str) -> None:
        self.file, self.key = str(file), key
        place = f"{file}: {key}" if key else f"{file}"
        super().__init__(f"{place}: found {found!r}; allowed: {allowed}", found=found, allowed=allowed)


class UnknownName(InputError):
    """A name that is not known.  Refuse to start, listing the known ones."""

    def __init__(self, what: str, name: str, known: Iterable[str], *, field: str = "") -> None:
        self.what, self.name, self.known = what, name, tuple(sorted(known))
        listed = ", ".join(self.known) or "none"
        super().__init__("unknown ", what, f" {name!r}; known: {listed}", field=field, found=name, allowed=listed)


class MeasuredElsewhere(InputError):
    """A study that clients measure has no application here.  Ask for another study, or for its trials."""


class MissingPrerequisite(TailorError):
    """Something the machine lacks.  Refuse to start; ``remedy`` says how to get it."""

    def __init__(self, missing: str, remedy: str) -> None:
        self.missing, self.remedy = missing, remedy
        super().__init__(f"{missing}\n  {remedy}")


class TrialFailed(TailorError):
    """A trial has no value.  Record it as failed with this reason, tell the optimizer, go on."""


class DeploymentFailed(TrialFailed):
    """A deployment did not become healthy; ``log`` holds the failing container's last lines."""

    def __init__(self, reason: str, service: str = "", log: str = "") -> None:
        self.reason, self.service, self.log = reason, service, log
        text = f"{service}: {reason}" if service else reason
        if log.strip():
            text += "\n" + "\n".join(f"  | {line}" for line in log.strip().splitlines())
        super().__init__(text)


class ParameterNotApplied(TrialFailed):
    """A parameter did not take effect."""

    def __init__(self, service: str, parameter: str, wanted: object, found: object) -> None:
        self.service, self.parameter, self.wanted, self.found = service, parameter, wanted, found
        super().__init__(
            f"{service}.{parameter} did not take effect: wanted {wanted!r}, running service says {found!r}"
        )


class LoadFailed(TrialFailed):
    """The load generator did not finish its plan."""


class TracesMissing(TrialFailed):
    """The spans of the window could not be read."""


class IncorrectAnswer(TrialFailed):
    """The application's own correctness check failed: a configuration that loses data has no value."""


class MeasurementInvalid(TailorError):
    """A repetition does not count.  Repeat it, at most twice; then the trial fails with these reasons."""

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("; ".join(self.reasons))


class Transient(TailorError):
    """Try again with back-off; when it lasts, pause the study."""


class TestbedUnavailable(Transient):
    """The engine does not answer."""

    __test__ = False  # its name would make pytest collect it


class StoreBusy(Transient):
    """The store is locked by another process."""


class StoreError(TailorError):
    """What Tailor keeps cannot be kept: a full disk, a bug or a race.  Pause the study, say what was found."""


class NotFound(StoreError):
    """No such study or trial in the store."""


class IllegalTransition(StoreError):
    """A state change that the life cycle does not have."""


class Interrupted(TailorError):
    """The person or the system asked to stop.  Clean up, keep what is finished, exit."""
