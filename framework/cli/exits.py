"""One table from errors to exit codes; a test fails on an error class that it does not cover."""

from __future__ import annotations

from framework.errors import (
    InputError,
    Interrupted,
    KnobRefused,
    MeasurementInvalid,
    MissingPrerequisite,
    StoreError,
    TailorError,
    Transient,
    TrialFailed,
)

EXIT_CODES: tuple[tuple[type[TailorError], int], ...] = (
    (InputError, 2),
    (MissingPrerequisite, 3),
    (TrialFailed, 4),
    (KnobRefused, 4),
    (MeasurementInvalid, 4),
    (Transient, 5),
    (StoreError, 6),
    (Interrupted, 130),
)


def exit_code(error: TailorError) -> int:
    """Return the exit code of an error; 1 is left to bugs."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), 1)
