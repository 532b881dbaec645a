"""Sets of CPUs as the kernel writes them: 0-3,8,10-11 (cpuset(7), list format)."""

from __future__ import annotations

from collections.abc import Iterable

from framework.errors import InputError

MOST = 8192  # CPUs that the kernel can be built for


def read_cpus(text: str) -> tuple[int, ...]:
    """The CPUs of a list, ascending; an empty list has none.  Raises InputError."""
    found: set[int] = set()
    for part in filter(None, (piece.strip() for piece in text.strip().split(","))):
        first, dash, last = part.partition("-")
        numbers = (first, last) if dash else (first,)
        if not all(one.isascii() and one.isdigit() and int(one) < MOST for one in numbers):
            raise InputError(f"CPUs: found {part!r}; allowed: numbers and ranges such as 0-3,8")
        low, high = int(first), int(numbers[-1])
        if low > high:
            raise InputError(f"CPUs: found {part!r}; allowed: ranges that rise")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def write_cpus(cpus: Iterable[int]) -> str:
    """The list of CPUs, with ranges."""
    parts: list[tuple[int, int]] = []
    for one in sorted(set(cpus)):
        if parts and parts[-1][1] == one - 1:
            parts[-1] = (parts[-1][0], one)
        else:
            parts.append((one, one))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
