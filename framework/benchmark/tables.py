"""Tables of measured configurations: comma-separated files, packed with gzip or not, as problems of the benchmark.

The first line names the columns.  A name that ends in ``-`` is an objective that is minimised, in ``+`` one that is
maximised (its inverse is minimised); all others are options.
"""

from __future__ import annotations

import csv
import io
import math
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from framework.config.reading import RECORD_BYTES, read_bytes
from framework.errors import FileError, InputError
from optimizer.benchmark.table import ANSWERS, DEFAULTS, Level, Table

MEASURED = Path(__file__).parent / "measured"
SUFFIX = ".csv.gz"
GZIP = b"\x1f\x8b"
NOISE_PERCENT = 10.0
WORDS = ("noise", "default", "answers")


def named() -> Sequence[str]:
    """Return the names of the tables that Tailor brings along."""
    return [path.name.removesuffix(SUFFIX) for path in sorted(MEASURED.glob(f"*{SUFFIX}"))]


def lines_of(table: str) -> Sequence[str]:
    """Return a problem line for each objective of a table (a name or a file).  Raises FileError."""
    path = path_of(table)
    return [f"table {table} {column[:-1]}" for column in _objectives(path, _read(path)[0])]


def path_of(table: str) -> Path:
    """Return the file of a table, which is one of Tailor's or a path.  Raises FileError."""
    own = MEASURED / f"{table}{SUFFIX}"
    if table in named():
        return own
    path = Path(table)
    if not path.exists():
        raise FileError(path, "", "no such file", f"a file, or one of {', '.join(named())}")
    return path


def measured_table(words: Sequence[str]) -> Table:
    """Return the problem of a line's words: TABLE OBJECTIVE [noise PERCENT] [default NAME] [answers WAY].

    Raises FileError, InputError, InvalidInput.
    """
    if len(words) < 2 or len(words) % 2:
        raise InputError(f"table: found {' '.join(words)!r}; allowed: TABLE OBJECTIVE [noise PERCENT] "
                         f"[default {'|'.join(DEFAULTS)}] [answers {'|'.join(ANSWERS)}]")  # fmt: skip
    table, objective, *rest = words
    given = dict(zip(rest[::2], rest[1::2], strict=True))
    if unknown := given.keys() - set(WORDS):
        raise InputError(f"table: found {', '.join(sorted(unknown))}; allowed: {', '.join(WORDS)}")
    answers = next((way for way in ANSWERS if way == given.get("answers", "nearest")), None)
    if answers is None:
        raise InputError(f"answers: found {given['answers']}; allowed: {', '.join(ANSWERS)}")
    path = path_of(table)
    header, rows = _read(path)
    columns = {column[:-1]: column for column in _objectives(path, header)}
    if objective not in columns:
        raise FileError(path, objective, "no such objective", ", ".join(columns))
    column = columns[objective]
    values = _numbers(path, column, [row[header.index(column)] for row in rows])
    if column.endswith("+"):
        values = 1.0 / values
    options = {
        name: _levels([row[index] for row in rows]) for index, name in enumerate(header) if name not in columns.values()
    }
    noise = _percent(given.get("noise", f"{NOISE_PERCENT:g}"))
    name = " ".join(("table", path.name.removesuffix(SUFFIX) if path.parent == MEASURED else table, *words[1:]))
    return Table(name, options, values, noise=noise, default=given.get("default", "median"), answers=answers)


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    data = read_bytes(path, RECORD_BYTES)
    if data.startswith(GZIP):
        unpacker = zlib.decompressobj(wbits=31)
        data = unpacker.decompress(data, RECORD_BYTES)
        if unpacker.unconsumed_tail:
            raise FileError(path, "", f"more than {RECORD_BYTES} bytes unpacked", "a smaller table")
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(data.decode())) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileError(path, "", str(error), "comma-separated values in UTF-8") from None
    if len(rows) < 2:
        raise FileError(path, "", f"{len(rows)} lines", "names of the columns, and a line for each configuration")
    header, *body = rows
    if len(set(header)) < len(header):
        raise FileError(path, "line 1", "a column named twice", "unique names")
    for number, row in enumerate(body, start=2):
        if len(row) != len(header):
            raise FileError(path, f"row {number}", f"{len(row)} values", f"{len(header)}, one for each column")
    return header, body


def _objectives(path: Path, header: Sequence[str]) -> Sequence[str]:
    objectives = [name for name in header if name.endswith(("-", "+"))]
    if not objectives or len(objectives) == len(header):
        raise FileError(path, "line 1", ", ".join(header)[:200], "options, and objectives whose names end in - or +")
    return objectives


def _numbers(path: Path, column: str, cells: Sequence[str]) -> np.ndarray:
    for number, cell in enumerate(cells, start=2):
        value = _number(cell)
        if isinstance(value, str) or not (math.isfinite(value) and value > 0):
            raise FileError(path, f"row {number}, {column}", cell, "a finite number above 0")
    return np.array([float(cell) for cell in cells])


def _levels(cells: Sequence[str]) -> list[Level]:
    """Return an option's column: numbers where all of it are numbers, else text."""
    values = [_number(cell) for cell in cells]
    return list(cells) if any(isinstance(value, str) or not math.isfinite(value) for value in values) else values


def _number(cell: str) -> Level:
    try:
        return float(cell)
    except ValueError:
        return cell


def _percent(text: str) -> float:
    value = _number(text)
    if isinstance(value, str) or not (math.isfinite(value) and value >= 0):
        raise InputError(f"noise: found {text}; allowed: a number of per cent, at least 0")
    return value / 100.0
