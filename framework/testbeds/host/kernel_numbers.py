"""Numbers and lists of CPUs in the texts of kernel files; a text that is neither is a file that cannot be read."""

from __future__ import annotations

from framework.errors import InputError, KnobRefused
from framework.model.cpus import read_cpus

DIGITS = 20  # of the largest counter, 2**64 - 1
SHOWN = 40  # characters of an odd text in a message


def number_in(text: str, file: str) -> int:
    """Return the whole number, 0 or more, that a text of a file is.  Raises KnobRefused where it is none."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= DIGITS):
        raise KnobRefused(file, f"it shows {digits[:SHOWN]!r}, which is no number")
    return int(digits)


def numbers_in(text: str, file: str) -> list[int]:
    """Return the whole numbers of a text, with white space between them.  Raises KnobRefused."""
    return [number_in(word, file) for word in text.split()]


def cpus_in(text: str, file: str) -> tuple[int, ...]:
    """Return the CPUs of a list.  Raises KnobRefused."""
    try:
        return read_cpus(text)
    except InputError as error:
        raise KnobRefused(file, f"it shows {text.strip()[:SHOWN]!r}, which is no list of CPUs") from error
