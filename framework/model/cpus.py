"""Sets of CPUs as the kernel writes them: 0-3,8,10-11 (cpuset(7), list format)."""

from __future__ import annotations

from collections.abc import Iterable

from framework.errors import InputError

MOST = 8192  # CPUs: the kernel's largest NR_CPUS


def read_cpus(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list, ascending; none for an empty text.  Raises InputError."""
    cpus: set[int] = set()
    for part in filter(None, (piece.strip() for piece in text.strip().split(","))):
        first, dash, last = part.partition("-")
        numbers = (first, last) if dash else (first,)
        if not all(number.isascii() and number.isdigit() and int(number) < MOST for number in numbers):
            raise InputError(f"CPUs: found {part!r}; allowed: numbers and ranges such as 0-3,8")
        low, high = int(first), int(numbers[-1])
        if low > high:
            raise InputError(f"CPUs: found {part!r}; allowed: ranges that rise")
        cpus.update(range(low, high + 1))
    return tuple(sorted(cpus))


def write_cpus(cpus: Iterable[int]) -> str:
    """Return the list of these CPUs, with ranges, such as 0-3,8."""
    parts: list[tuple[int, int]] = []
    for cpu in sorted(set(cpus)):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1] = (parts[-1][0], cpu)
        else:
            parts.append((cpu, cpu))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
