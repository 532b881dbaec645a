"""A reader of exported studies that trusts nothing in the file, which may come from anybody.

Unpacked bytes are counted, for each part and in all, whatever the file declares.  Only parts that an export writes are
allowed, each once and with a name inside the archive.  The number of values in a document and their depth are bounded.
"""

from __future__ import annotations

import hashlib
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from framework.config.reading import CONFIGURATION_BYTES, MIB
from framework.errors import InputError
from framework.model.identity import is_plain_name

FORMAT, VERSION = "tailor study", 2
OLDER_VERSIONS = (1,)  # which are read too
MOST_PARTS = 100_000
MOST_DIRECTORY_BYTES = 8 * MIB  # of the list of parts, which the zip library reads at once
MOST_BYTES = 4096 * MIB  # of all parts that are read, unpacked
DOCUMENT_BYTES = 128 * MIB  # of study.json, unpacked
TABLE_BYTES = 256 * MIB  # of latencies.parquet, unpacked
ARTEFACT_BYTES = 256 * MIB  # of a compose document or a window's traces, unpacked
MOST_VALUES = 3_000_000  # of study.json: some 2,000 windows of 30 services
MOST_DEPTH = 64
MOST_FILES = 16  # of an application's description
CHUNK_BYTES = MIB

TABLES = ("trials.parquet", "measurements.parquet", "latencies.parquet")
APPLICATION, ARTEFACTS = "application/", "artefacts/"
DIGEST = re.compile(r"[0-9a-f]{64}")
_BRACKETS = (b"[", b"{", b",")
_GO_SERVICE = re.compile(rb"^(\s*(?:-\s+)?type:\s*)([\"']?)go\2(?=\s|$)", re.MULTILINE)


def _of_version_1(application: bytes) -> bytes:
    """Return an application.yaml of version 1, where the type of our own services, go-service, was called go."""
    return _GO_SERVICE.sub(rb"\1\2go-service\2", application)


class _Bounded:
    """A file that refuses long reads: a zip file declares itself how long its list of parts is."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(MOST_DIRECTORY_BYTES + 1 if size < 0 else min(size, MOST_DIRECTORY_BYTES + 1))
        if len(data) > MOST_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"its list of parts is longer than {MOST_DIRECTORY_BYTES} bytes")
        return data


class Parts:
    """The parts of an exported study, their names checked, nothing unpacked.  Raises InputError for another file."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._bytes_left = MOST_BYTES
        self._known_version: int | None = None
        try:
            self._zip = zipfile.ZipFile(_Bounded(file))
            parts = self._zip.infolist()
        # The library raises any of these on damaged files; the names of parts may be damaged too.
        except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as error:
            raise self._error(f"{error}; allowed: a file that `tailor export` wrote") from error
        if len(parts) > MOST_PARTS:
            raise self._error(f"{len(parts)} parts; allowed: at most {MOST_PARTS}")
        self._parts: dict[str, zipfile.ZipInfo] = {}
        for part in parts:
            self._check(part)
            self._parts[part.filename] = part
        self._check_description()

    def _check(self, part: zipfile.ZipInfo) -> None:
        name = part.filename
        if name in self._parts:
            raise self._error(f"{name!r} is there twice")
        if stat.S_ISLNK(part.external_attr >> 16):
            raise self._error(f"{name!r} is a link")
        known = name in ("study.json", *TABLES)
        if name.startswith(ARTEFACTS):
            known = DIGEST.fullmatch(name.removeprefix(ARTEFACTS)) is not None
        elif name.startswith(APPLICATION):
            pieces = name.removeprefix(APPLICATION).split("/")
            known = len(pieces) <= 8 and all(is_plain_name(piece) and len(piece.encode()) <= 255 for piece in pieces)
        if not known:
            raise self._error(f"{name!r} is no name of a file of a study")

    def _check_description(self) -> None:
        names = self.description_names()
        if len(names) > MOST_FILES:
            raise self._error(f"{len(names)} files of an application; allowed: at most {MOST_FILES}")
        for name in names:
            if any(other.startswith(f"{name}/") for other in names):
                raise self._error(f"{APPLICATION}{name} is a file and a directory")

    def _error(self, problem: str) -> InputError:
        return InputError(f"{self._path}: {problem}")

    # ------------------------------------------------------------------ the parts

    def description_names(self) -> list[str]:
        """Return the files of the application's description: relative paths that stay below its directory."""
        return [name.removeprefix(APPLICATION) for name in self._parts if name.startswith(APPLICATION)]

    def has(self, name: str) -> bool:
        """Return whether there is a part of this name."""
        return name in self._parts

    def read(self, name: str, most: int) -> bytes:
        """Return a part, unpacked.  Raises InputError where it is missing, damaged or larger than ``most`` bytes."""
        return b"".join(self._chunks(name, most))

    def description_file(self, name: str) -> bytes:
        """Return a file of the application's description, in today's words.  Raises InputError."""
        data = self.read(f"{APPLICATION}{name}", CONFIGURATION_BYTES)
        return _of_version_1(data) if name == "application.yaml" and self._version() == 1 else data

    def _version(self) -> int:
        if self._known_version is None:
            self.document()
        return self._known_version or VERSION

    def artefact(self, digest: str) -> bytes:
        """Return an artefact.  Raises InputError where its content has another digest."""
        data = self.read(f"{ARTEFACTS}{digest}", ARTEFACT_BYTES)
        if hashlib.sha256(data).hexdigest() != digest:
            raise self._error(f"{ARTEFACTS}{digest} is damaged: its content has another digest")
        return data

    def _chunks(self, name: str, most: int) -> Iterator[bytes]:
        if name not in self._parts:
            raise self._error(f"{name} is missing; allowed: a file that `tailor export` wrote")
        part_left = most
        try:
            with self._zip.open(self._parts[name]) as part:
                while chunk := part.read(CHUNK_BYTES):
                    part_left -= len(chunk)
                    self._bytes_left -= len(chunk)
                    if part_left < 0:
                        raise self._error(f"{name} is larger than {most} bytes when unpacked")
                    if self._bytes_left < 0:
                        raise self._error(f"its parts are larger than {MOST_BYTES} bytes when unpacked")
                    yield chunk
        # Damaged data; an unknown method; encryption; a damaged header.
        except (
            zlib.error,
            NotImplementedError,
            RuntimeError,
            OSError,
            EOFError,
            ValueError,
            zipfile.BadZipFile,
        ) as error:
            raise self._error(f"{name} cannot be unpacked ({error})") from error

    def reset_budget(self) -> None:
        """Allow ``MOST_BYTES`` again: parts that were checked are read a second time to be written."""
        self._bytes_left = MOST_BYTES

    def document(self) -> Mapping[str, Any]:
        """Return study.json as a dictionary.  Raises InputError where it is not a study's."""
        data = self.read("study.json", DOCUMENT_BYTES)
        if sum(data.count(bracket) for bracket in _BRACKETS) > MOST_VALUES:
            raise self._error(f"study.json: more than {MOST_VALUES} values")
        try:
            document = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise self._error(f"study.json: {f'{error}'[:300]}") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise self._error("not a study; allowed: a file that `tailor export` wrote")
        version = document.get("version")
        if version not in (VERSION, *OLDER_VERSIONS):
            raise self._error(f"version {str(version)[:50]}; allowed: {VERSION}, {', '.join(map(str, OLDER_VERSIONS))}")
        self._known_version = version
        self._check_values(document)
        return document

    def _check_values(self, document: Any) -> None:
        """Check level by level, because Python's recursion is limited.  Raises InputError."""
        level = [document]
        for _ in range(MOST_DEPTH):
            below: list[Any] = []
            for value in level:
                if isinstance(value, dict):
                    below += value.keys()
                    below += value.values()
                elif isinstance(value, list):
                    below += value
                elif isinstance(value, str):
                    if "\0" in value:
                        raise self._error("study.json: text with a NUL")
                elif isinstance(value, int) and abs(value) >= 2**63:
                    raise self._error("study.json: an integer of more than 64 bits")
            level = below
        if level:
            raise self._error(f"study.json: values nested more than {MOST_DEPTH} deep")
