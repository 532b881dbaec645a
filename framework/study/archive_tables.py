"""The Parquet tables of a study's export; the latency samples are read back at an import.

A file to import may come from anybody, and a few kilobytes can unpack to billions of rows.  Therefore the number of
rows, the types of the columns and the size of every page are checked first; rows are then read in batches.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from framework.model import Measurement, Trial
from framework.model.documents import encode
from framework.study.parquet_pages import DamagedPages, page_sizes

KEY = ("trial", "repetition", "attempt")
WINDOW = "window"  # number of the window in its repetition's attempt, a column only where some have several
LATENCY = "latency_ms"
MOST_ROWS = 20_000_000  # requests of all measured windows: 80 MB of samples
MOST_WINDOWS = 200_000
MOST_GROUPS = 10_000  # of rows, in which a file is written
BATCH_ROWS = 262_144
PAGE_BYTES = 16 * 2**20  # pyarrow writes pages of 1 MiB
MOST_PAGES = 100_000


class NotATable(ValueError):
    """A table is not as an export writes it; the message says why."""


def read_latencies(data: bytes) -> dict[tuple[int, ...], np.ndarray]:
    """Return (trial, repetition, attempt, window) -> samples [ms], shape (n,).  Raises NotATable."""
    try:
        file = parquet.ParquetFile(pa.BufferReader(data))
        _check(file)
        if not file.metadata.num_rows:
            return {}
        for pages, size in enumerate(page_sizes(data, file.metadata)):
            if size > PAGE_BYTES or pages > MOST_PAGES:
                raise NotATable(f"a page of {size} bytes, or more than {MOST_PAGES}; allowed: {PAGE_BYTES} bytes")
        return _samples(file)
    except (pa.ArrowException, DamagedPages, OSError, KeyError, OverflowError) as error:
        raise NotATable(f"{error}"[:300]) from error


def _samples(file: parquet.ParquetFile) -> dict[tuple[int, ...], np.ndarray]:
    pieces: dict[tuple[int, ...], list[np.ndarray]] = {}
    last: tuple[int, ...] | None = None
    names = _key_columns(file)
    rest = (0,) * (len(KEY) + 1 - len(names))  # the only window, where there is no column for it
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=[*names, LATENCY], use_threads=False):
        if not batch.num_rows:
            continue
        if any(batch.column(name).null_count for name in (*names, LATENCY)):
            raise NotATable("rows without a value")
        keys = np.stack([batch.column(name).to_numpy() for name in names], axis=1)
        # A copy, or each piece would keep its whole batch.
        samples = batch.column(LATENCY).to_numpy().astype(np.float32, copy=True)
        starts = np.flatnonzero(np.any(np.diff(keys, axis=0), axis=1)) + 1
        if len(pieces) + len(starts) > MOST_WINDOWS:
            raise NotATable(f"more than {MOST_WINDOWS} windows, or their rows are not contiguous")
        for first, window in zip([0, *starts.tolist()], np.split(samples, starts), strict=True):
            key = (*(int(part) for part in keys[first]), *rest)
            if key != last and key in pieces:
                raise NotATable(f"the rows of trial {key[0]} are not contiguous")
            pieces.setdefault(key, []).append(window)
            last = key
    return {key: np.concatenate(pieces[key]) for key in list(pieces)}


def _check(file: parquet.ParquetFile) -> None:
    """Raise NotATable where the number of rows or the columns are wrong; read no row."""
    about, schema = file.metadata, file.schema_arrow
    if about.num_rows > MOST_ROWS:
        raise NotATable(f"{about.num_rows} rows; allowed: at most {MOST_ROWS}")
    if about.num_row_groups > MOST_GROUPS:
        raise NotATable(f"{about.num_row_groups} groups of rows; allowed: at most {MOST_GROUPS}")
    names = _key_columns(file)
    if sorted(schema.names) != sorted((*names, LATENCY)):
        raise NotATable(f"other columns than {', '.join((*names, LATENCY))}")
    for name in names:
        if not pa.types.is_int32(schema.field(name).type):
            raise NotATable(f"{name}: not a column of 32-bit integers")
    if not pa.types.is_float32(schema.field(LATENCY).type):
        raise NotATable(f"{LATENCY}: not a column of 32-bit numbers")


def _key_columns(file: parquet.ParquetFile) -> tuple[str, ...]:
    return (*KEY, WINDOW) if WINDOW in file.schema_arrow.names else KEY


def window_numbers(windows: Sequence[tuple[int, Measurement]]) -> list[int]:
    """Return the number of each window, from 0, among those of its (trial, repetition, attempt), in their order."""
    seen: Counter[tuple[int, int, int]] = Counter()
    numbers = []
    for trial, measurement in windows:
        key = trial, measurement.repetition, measurement.attempt
        numbers.append(seen[key])
        seen[key] += 1
    return numbers


def parquet_of(columns: Mapping[str, Sequence[Any]] | Mapping[str, np.ndarray]) -> bytes:
    """Return a Parquet file of these columns (name -> values of all rows)."""
    sink = io.BytesIO()
    parquet.write_table(pa.table({name: _array(values) for name, values in columns.items()}), sink, compression="zstd")
    return sink.getvalue()


def _array(values: Any) -> pa.Array:
    """Return a column; values of several types (a special value among numbers) are written as JSON."""
    if isinstance(values, np.ndarray):
        return pa.array(values)
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and kinds != {int, float}:
        values = [None if value is None else json.dumps(value) for value in values]
    return pa.array([float(v) if kinds == {int, float} and v is not None else v for v in values])


def trial_columns(trials: Sequence[Trial]) -> dict[str, list[Any]]:
    """Return the columns of trials.parquet, one row per trial."""
    names = ("number", "purpose", "label", "state", "value", "standard_error", "told_value", "reason", "pair", "ask",
             "testbed", "started_at", "finished_at")  # fmt: skip
    columns: dict[str, list[Any]] = {name: [encode(getattr(trial, name)) for trial in trials] for name in names}
    for name in dict.fromkeys(name for trial in trials for name in trial.configuration):
        columns[f"configuration.{name}"] = [trial.configuration.get(name) for trial in trials]
    return columns


def measurement_columns(trials: Sequence[Trial]) -> dict[str, list[Any]]:
    """Return the columns of measurements.parquet, one row per window."""
    numbered = [(trial.number, measurement) for trial in trials for measurement in trial.measurements]
    measurements = [measurement for _, measurement in numbered]
    plain = ("repetition", "attempt", "value", "requests", "failed_requests", "achieved_rps", "wanted_rps",
             "lag_p99_ms", "generator_p95_ms", "spans_created", "spans_read", "stolen_cpu", "pressure_cpu",
             "tick_us", "rate_rps")  # fmt: skip
    columns: dict[str, list[Any]] = {"trial": [number for number, _ in numbered]}
    columns |= {name: [getattr(m, name) for m in measurements] for name in plain}
    columns["invalid"] = ["; ".join(m.invalid) for m in measurements]
    columns["infeasible"] = ["; ".join(m.infeasible) for m in measurements]
    for name in dict.fromkeys(name for m in measurements for name in m.quantities):
        estimates = [m.quantities.get(name) for m in measurements]
        for side in ("value", "low", "high"):
            columns[f"{name}.{side}"] = [
                None if estimate is None else getattr(estimate, side) for estimate in estimates
            ]
    for part in dict.fromkeys(part for m in measurements for part in m.cpu):
        columns[f"cpu.{part}"] = [m.cpu.get(part) for m in measurements]
    for phase in dict.fromkeys(phase for m in measurements for phase in m.phases):
        columns[f"seconds.{phase}"] = [m.phases.get(phase) for m in measurements]
    return columns


def latency_columns(trials: Sequence[Trial]) -> dict[str, np.ndarray]:
    """Return the columns of latencies.parquet, one row per request, each of shape (requests,)."""
    numbered = [(trial.number, measurement) for trial in trials for measurement in trial.measurements]
    counts = [len(m.latencies_ms) for _, m in numbered]
    keys = {
        "trial": [number for number, _ in numbered],
        "repetition": [m.repetition for _, m in numbered],
        "attempt": [m.attempt for _, m in numbered],
        WINDOW: window_numbers(numbered),
    }
    if not any(keys[WINDOW]):
        del keys[WINDOW]
    columns = {name: np.repeat(np.array(numbers, np.int32), counts) for name, numbers in keys.items()}
    samples = [m.latencies_ms for _, m in numbered]
    return {**columns, "latency_ms": np.concatenate(samples).astype(np.float32) if samples else np.empty(0, np.float32)}
