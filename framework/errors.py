"""Tailor's errors, classified by what the caller does next.

TailorError
├── InputError                      refuse to start: the user mends the input
│   ├── FieldError                  a field of a request: what was found, what is allowed
│   ├── FileError                   a file: where, what was found, what is allowed
│   ├── UnknownName                 a name: the known ones are listed
│   └── MeasuredElsewhere           a study that clients measure: nothing to run, report or deploy here
├── MissingPrerequisite             refuse to start: the user installs or builds something
├── TrialFailed                     mark the trial failed, tell the optimizer, go on
│   ├── DeploymentFailed            a service did not come up
│   ├── ParameterNotApplied         a parameter read back with another value
│   ├── LoadFailed                  the generator did not finish
│   ├── TracesMissing               spans could not be read
│   └── IncorrectAnswer             the application's own check failed: the configuration loses data
├── KnobRefused                     the guard goes on without this knob, and says so
├── MeasurementInvalid              repeat the repetition (at most twice), then the trial has no value
├── Transient                       retry with back-off, then pause the study
│   ├── TestbedUnavailable
│   └── StoreBusy
├── StoreError                      a full disk, a bug or a race: say what was found, pause the study
│   ├── NotFound
│   └── IllegalTransition
└── Interrupted                     clean up, keep what is finished, exit
    └── LeaseLost                   another process took over the study: stop without writing to it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path


class TailorError(Exception):
    """Root of Tailor's own errors; a library's exception never crosses its adapter."""


MAX_CHARACTERS = 5000  # of a message


class FieldName(str):
    """The name of a field inside a message.  Whoever shows it spells the name as the user gave it (a flag)."""

    __slots__ = ()


class InputError(TailorError):
    """Input that cannot be used.  Refuse to start.  A message longer than MAX_CHARACTERS is cut.

    ``message``: its parts; a part that is a FieldName names a field.  ``field``: by default the first one named, empty
    where no field is at fault.  ``found``, ``allowed``: None and empty where the message alone says it.
    """

    def __init__(self, *message: str, field: str = "", found: object = None, allowed: str = "") -> None:
        super().__init__(*message)
        named = (str(part) for part in message if isinstance(part, FieldName))
        self.field = field or next(named, "")
        self.found, self.allowed = found, allowed

    def __str__(self) -> str:
        return self.message(str)

    def message(self, spell: Callable[[str], str]) -> str:
        """Return the message with each field's name as ``spell`` writes it."""
        message = "".join(spell(part) if isinstance(part, FieldName) else part for part in self.args)
        more = len(message) - MAX_CHARACTERS
        return message if more <= 0 else f"{message[:MAX_CHARACTERS]} ... ({more} characters more)"


class FieldError(InputError):
    """A field that cannot be used; the message names the field, the value found and the values allowed."""

    def __init__(self, field: str, found: object, allowed: str) -> None:
        super().__init__(FieldName(field), f": found {found!r}; allowed: {allowed}", found=found, allowed=allowed)


class FileError(InputError):
    """A file that cannot be used; the message names the file, the key path, the value found and the values allowed."""

    def __init__(self, file: Path | str, key: str, found: object, allowed: str) -> None:
        self.file, self.key = str(file), key
        place = f"{file}: {key}" if key else f"{file}"
        super().__init__(f"{place}: found {found!r}; allowed: {allowed}", found=found, allowed=allowed)


class UnknownName(InputError):
    """An unknown name.  Refuse to start and list the known ones.  ``what``: the kind of thing, for the message."""

    def __init__(self, what: str, name: str, known: Iterable[str], *, field: str = "") -> None:
        self.what, self.name, self.known = what, name, tuple(sorted(known))
        listed = ", ".join(self.known) or "none"
        super().__init__("unknown ", what, f" {name!r}; known: {listed}", field=field, found=name, allowed=listed)


class MeasuredElsewhere(InputError):
    """A study that clients measure: its application is not here.  Ask for another study, or for its trials."""


class MissingPrerequisite(TailorError):
    """Software or hardware that the machine lacks.  Refuse to start; ``remedy`` says how to get it."""

    def __init__(self, missing: str, remedy: str) -> None:
        self.missing, self.remedy = missing, remedy
        super().__init__(f"{missing}\n  {remedy}")


class TrialFailed(TailorError):
    """A trial without a value.  Record it as failed with this reason, tell the optimizer, go on."""


class DeploymentFailed(TrialFailed):
    """A deployment that did not become healthy; ``log`` holds the failing container's last lines."""

    def __init__(self, reason: str, service: str = "", log: str = "") -> None:
        self.reason, self.service, self.log = reason, service, log
        text = f"{service}: {reason}" if service else reason
        if log.strip():
            text += "\n" + "\n".join(f"  | {line}" for line in log.strip().splitlines())
        super().__init__(text)


class ParameterNotApplied(TrialFailed):
    """A parameter that did not take effect: it reads back with another value."""

    def __init__(self, service: str, parameter: str, wanted: object, found: object) -> None:
        self.service, self.parameter, self.wanted, self.found = service, parameter, wanted, found
        super().__init__(
            f"{service}.{parameter} did not take effect: wanted {wanted!r}, running service says {found!r}"
        )


class LoadFailed(TrialFailed):
    """A load generator that did not finish its plan."""


class TracesMissing(TrialFailed):
    """Spans of the window that could not be read."""


class IncorrectAnswer(TrialFailed):
    """A failure of the application's own correctness check: a configuration that loses data has no value."""


class KnobRefused(TailorError):
    """A setting that the kernel does not take or show.  The guard says so, and goes on without this knob."""

    def __init__(self, knob: str, reason: str) -> None:
        self.knob, self.reason = knob, reason
        super().__init__(f"{knob}: {reason}")


class MeasurementInvalid(TailorError):
    """A repetition that does not count.  Repeat it, at most twice; then the trial fails with these reasons."""

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("; ".join(self.reasons))


class Transient(TailorError):
    """A passing failure.  Try again with back-off; when it lasts, pause the study."""


class TestbedUnavailable(Transient):
    """An engine that does not answer."""

    __test__ = False  # its name would make pytest collect it


class StoreBusy(Transient):
    """A store that another process has locked."""


class StoreError(TailorError):
    """A failure to keep or read Tailor's data: a full disk, a bug or a race.  Say what was found, pause the study."""


class NotFound(StoreError):
    """A study, a trial or an artefact that the store does not have."""


class IllegalTransition(StoreError):
    """A state change that the life cycle does not allow."""


class Interrupted(TailorError):
    """A request to stop, from a person or the system.  Clean up, keep what is finished, exit."""


class LeaseLost(Interrupted):
    """Another process took over the study: what is left of it here is that process's."""
