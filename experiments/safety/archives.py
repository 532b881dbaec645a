"""Files of studies, spoilt from a seed: real exports, cut, flipped, with other parts, other ids and with bombs."""

from __future__ import annotations

import io
import json
import random
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

MIB = 2**20
NAMES = (
    "../evil", "../../evil", "/etc/evil", "application/../../evil", "application/../evil", "application/.",
    "application/..",
    "application//evil", "application/a\\..\\evil", "application/compose.yaml/x", "application/\0", "application/a\nb",
    "artefacts/../../evil", "artefacts/" + "G" * 64, "artefacts/" + "a" * 63, "study.json/x", "STUDY.JSON", "evil", " ",
    "application/" + "a" * 300, "application/" + "/".join("abcdefghij"), "imported/x/small/application.yaml",
    "~/evil", "C:\\evil",
)  # fmt: skip
IDS: Sequence[Any] = (
    "..", ".", "", "../../x", "/etc", "a/b", "a\0b", "a\nb", "x" * 65, "~", "20260101-000000-abcdef", "-", "a b",
    "ä", "\ud800", 1, None,
    [], {}, True,
)  # fmt: skip
VALUES: Sequence[Any] = (
    None, True, -1, 0, 2**31, 2**63, 10**400, 1e308, -0.0, "", "/etc/passwd", "../..", "\0", "a\x1b[0m",
    "x" * 100_000, [], {}, [[]],
    {"a": 1}, "2026-01-01T00:00:00+00:00", "completed", "external", "Z" * 64, "0" * 64,
)  # fmt: skip


class Archives:
    """An endless series of files, made of the parts of these exports."""

    def __init__(self, seed: str, exports: Sequence[bytes]) -> None:
        self._random = random.Random(seed)
        self._exports = [_parts(path) for path in exports]
        self._ways: Sequence[tuple[Callable[[dict[str, bytes]], bytes | None], float]] = (
            (self._cut, 1), (self._flipped, 2), (self._headers, 1), (self._renamed, 2), (self._added, 2),
            (self._document, 5),
            (self._swapped, 1), (self._table, 2), (self._link, 0.5), (self._twice, 0.5), (self._missing, 1),
            (self._bomb, 0.15),
            (self._untouched, 0.3), (self._junk, 0.3), (self._renumbered, 1),
        )  # fmt: skip

    def next(self) -> tuple[str, bytes]:
        """(what was done to it, the file)."""
        parts = dict(self._random.choice(self._exports))
        ways, weights = zip(*self._ways, strict=True)
        [way] = self._random.choices(ways, weights)
        data = way(parts)
        return way.__name__.strip("_"), packed(parts) if data is None else data

    # ------------------------------------------------------------------ bytes

    def _cut(self, parts: dict[str, bytes]) -> bytes:
        data = packed(parts)
        return data[: self._random.randrange(len(data))]

    def _flipped(self, parts: dict[str, bytes]) -> bytes:
        data = bytearray(packed(parts))
        for _ in range(self._random.choice([1, 1, 3, 30])):
            data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
        return bytes(data)

    def _headers(self, parts: dict[str, bytes]) -> bytes:
        """Let the list of parts contradict a part."""
        data = bytearray(packed(parts))
        places = [at for at in range(len(data) - 46) if data[at : at + 4] == b"PK\x01\x02"]
        at = self._random.choice(places)
        offset, size = self._random.choice([(24, 4), (20, 4), (10, 2), (42, 4), (8, 2), (28, 2), (16, 4)])
        value = self._random.choice([0, 1, 10, 0xFFFF, 0xFFFFFFFF, self._random.getrandbits(16)])
        data[at + offset : at + offset + size] = struct.pack("<Q", value)[:size]
        return bytes(data)

    def _junk(self, parts: dict[str, bytes]) -> bytes:
        rng = self._random
        return rng.choice(
            [
                b"",
                b"PK",
                b"PK\x05\x06" + b"\0" * 18,
                rng.randbytes(1_000),
                packed(parts) + b"x" * 70_000,
                b"\x1f\x8b" * 100,
            ]
        )

    # ------------------------------------------------------------------ parts

    def _untouched(self, parts: dict[str, bytes]) -> None:
        pass

    def _renamed(self, parts: dict[str, bytes]) -> None:
        name = self._random.choice(list(parts))
        parts[self._random.choice(NAMES)] = parts.pop(name)

    def _added(self, parts: dict[str, bytes]) -> None:
        parts[self._random.choice(NAMES)] = self._random.choice([b"", b"x", b"services: {evil: {image: x}}\n"])

    def _missing(self, parts: dict[str, bytes]) -> None:
        parts.pop(self._random.choice(list(parts)))

    def _swapped(self, parts: dict[str, bytes]) -> None:
        first, second = self._random.sample(list(parts), 2)
        parts[first], parts[second] = parts[second], parts[first]

    def _link(self, parts: dict[str, bytes]) -> bytes:
        buffer = io.BytesIO(packed(parts))
        link = zipfile.ZipInfo(self._random.choice(["application/link", "application/compose.yaml", "study.json"]))
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        return _with(buffer, link, b"/etc/passwd")

    def _twice(self, parts: dict[str, bytes]) -> bytes:
        return _with(io.BytesIO(packed(parts)), zipfile.ZipInfo(self._random.choice(list(parts))), b"services: {}\n")

    def _table(self, parts: dict[str, bytes]) -> None:
        rng = self._random
        data = bytearray(parts["latencies.parquet"])
        if rng.random() < 0.5 and data:
            for _ in range(rng.choice([1, 4])):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            parts["latencies.parquet"] = bytes(data)
        else:
            parts["latencies.parquet"] = rng.choice([b"", b"PAR1", b"PAR1" * 9, bytes(data[:-9]), *_tables()])

    def _bomb(self, parts: dict[str, bytes]) -> None:
        """Make a part that is small as a file; gigabytes, or a great many values, when it is unpacked."""
        kind = self._random.randrange(5)
        if kind == 0:
            parts["study.json"] = b" " * (200 * MIB)
        elif kind == 1:
            parts["study.json"] = b"[" * 1_000_000 + b"]" * 1_000_000
        elif kind == 2:
            artefacts = [name for name in parts if name.startswith("artefacts/")]
            parts[artefacts[0] if artefacts else "study.json"] = b"\0" * (300 * MIB)
        elif kind == 3:
            parts["latencies.parquet"] = _table(25_000_000)
        else:
            parts["application/application.yaml"] = b"a: &a [1]\n" + b"b: [*a, *a, *a]\n" * (2 * MIB)

    # ------------------------------------------------------------------ the document

    def _renumbered(self, parts: dict[str, bytes]) -> None:
        """Give it the id of another study."""
        document = json.loads(parts["study.json"])
        name = self._random.choice(
            [*IDS, *(json.loads(export["study.json"])["study"]["id"] for export in self._exports)]
        )
        document["study"]["id"] = name
        for trial in document["trials"]:
            trial["study"] = name
        parts["study.json"] = json.dumps(document).encode("utf-8", "surrogatepass")

    def _document(self, parts: dict[str, bytes]) -> None:
        """Replace a value somewhere in it, add one, or take one away."""
        document = json.loads(parts["study.json"])
        for _ in range(self._random.choice([1, 1, 1, 2, 5])):
            self._spoil(document)
        try:
            text = json.dumps(document)
        except ValueError:  # a number of more digits than Python writes
            text = json.dumps(document, default=str).replace("x", "9")
        parts["study.json"] = text.encode("utf-8", "surrogatepass")

    def _spoil(self, document: Any) -> None:
        rng = self._random
        at = document
        while True:
            keys: list[Any] = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                return
            key = rng.choice(keys)
            if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.85:
                at = at[key]
                continue
            which = rng.random()
            if which < 0.15:
                del at[key]
            elif which < 0.3 and isinstance(at, dict):
                at[rng.choice(["more", "", "id", "__class__", "application", "\0"])] = rng.choice(VALUES)
            elif which < 0.4:
                at[key] = self._deep()
            else:
                at[key] = rng.choice(VALUES)
            return

    def _deep(self) -> Any:
        value: Any = 1
        for _ in range(self._random.choice([10, 63, 64, 65, 500])):
            value = [value] if self._random.random() < 0.5 else {"a": value}
        return value


def packed(parts: Mapping[str, bytes]) -> bytes:
    """Return a zip file of these parts."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in parts.items():
            file.writestr(name, data)
    return buffer.getvalue()


def _parts(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def _with(buffer: io.BytesIO, part: zipfile.ZipInfo, data: bytes) -> bytes:
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "a") as file:
        warnings.simplefilter("ignore")  # that a name is there twice
        file.writestr(part, data)
    return buffer.getvalue()


def _table(rows: int, **columns: Any) -> bytes:
    zeros = np.zeros(rows, np.int32)
    whole = {
        "trial": zeros + np.int32(1),
        "repetition": zeros,
        "attempt": zeros,
        "latency_ms": np.zeros(rows, np.float32),
    }
    sink = io.BytesIO()
    parquet.write_table(pa.table({**whole, **columns}), sink, compression="zstd")
    return sink.getvalue()


def _tables() -> Sequence[bytes]:
    return (
        _table(3), _table(2, latency_ms=pa.array(["x", "y"])), _table(2, other=["x", "y"]), _table(1,
        trial=np.ones(1, np.int64)),
        _table(2, latency_ms=pa.array([1.0, None], pa.float32())), _table(3, attempt=np.array([0, 1, 0], np.int32)),
        _table(2, latency_ms=np.array([np.nan, np.inf], np.float32)), _table(1, latency_ms=pa.array([[1.0]])),
    )  # fmt: skip
