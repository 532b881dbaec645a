"""Files of the kernel that show anything at all, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from framework.errors import KnobRefused
from framework.ports.kernel_files import KernelFiles

Spoil = Callable[[str], str]
"""Text that a file shows in place of its own; raises KnobRefused where it cannot be read."""

PEOPLE = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
READ_S = 12  # seconds of readings, one a second
NUMBERS = (
    "-1", "-9223372036854775808", "18446744073709551616", "9" * 400, "9" * 5000, "1_000", "٣", "0x10", "1e3", "nan",
    "inf", "1.5", "+7", "00", "5 5", "",
)  # fmt: skip
"""Texts that may stand where a number is due."""
REASONS = ("No such process", "Permission denied", "No such device", "Input/output error", "No such file or directory")


@dataclass(frozen=True)
class Replaced:
    """Replaces the ``place``-th word, counted around."""

    place: int
    word: str

    def __call__(self, text: str) -> str:
        words = text.split(" ")
        words[self.place % len(words)] = self.word
        return " ".join(words)


@dataclass(frozen=True)
class Cut:
    """Keeps so many thousandths of the text."""

    share: int

    def __call__(self, text: str) -> str:
        return text[: len(text) * self.share // 1000]


@dataclass(frozen=True)
class Shows:
    """Shows another text."""

    other: str

    def __call__(self, text: str) -> str:
        return self.other


@dataclass(frozen=True)
class Refuses:
    """Cannot be read."""

    reason: str

    def __call__(self, text: str) -> str:
        raise KnobRefused("a file", self.reason)


@dataclass(frozen=True)
class Unspoilt:
    """Shows what it has."""

    def __call__(self, text: str) -> str:
        return text


SPOILS: st.SearchStrategy[Spoil] = st.one_of(
    st.builds(Unspoilt),
    st.builds(Refuses, st.sampled_from(REASONS)),
    st.builds(Shows, st.just("")),
    st.builds(Shows, st.text(max_size=60)),
    st.builds(Shows, st.text("0123456789 :/.-=,\n\t\0abcdef", max_size=60)),
    st.builds(Shows, st.sampled_from(NUMBERS)),
    st.builds(Cut, st.integers(0, 1000)),
    st.builds(Replaced, st.integers(0, 30), st.one_of(st.text(max_size=10), st.sampled_from(NUMBERS))),
)


def spoilt(names: Sequence[str]) -> st.SearchStrategy[Mapping[str, Sequence[Spoil]]]:
    """Return a strategy of: end of a file's path -> what its readings show, one after the other and again."""
    return st.dictionaries(st.sampled_from(names), st.lists(SPOILS, min_size=1, max_size=4))


@dataclass(slots=True)
class SpoiltFiles:
    """Implements ``framework.ports.kernel_files.KernelFiles`` on other files.  ``spoils``: as of ``spoilt``."""

    files: KernelFiles
    spoils: Mapping[str, Sequence[Spoil]] = field(default_factory=dict)
    _readings: dict[str, int] = field(default_factory=dict)

    def read(self, path: str) -> str:
        text = self.files.read(path)
        ends = next((end for end in self.spoils if path.endswith(end)), None)
        if ends is None:
            return text
        number = self._readings[path] = self._readings.get(path, -1) + 1
        return self.spoils[ends][number % len(self.spoils[ends])](text)

    def write(self, path: str, text: str) -> None:
        self.files.write(path, text)

    def exists(self, path: str) -> bool:
        return self.files.exists(path)

    def entries(self, path: str) -> list[str]:
        return self.files.entries(path)

    def make(self, path: str) -> None:
        self.files.make(path)

    def remove(self, path: str) -> None:
        self.files.remove(path)
