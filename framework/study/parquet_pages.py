"""Unpacked sizes of the pages of a Parquet file, read from the page headers before any page is unpacked.

A reader unpacks a whole page, whatever the file's footer says of rows and sizes: 200 kB can unpack to 2 GB.
Page headers are Thrift structures in the compact protocol (parquet-format, PageHeader: field 2 is the size unpacked,
field 3 the size in the file); everything else in them is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MOST_DEPTH = 8
UNPACKED, PACKED = 2, 3  # numbers of fields in a page header
STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)


class DamagedPages(ValueError):
    """A page header that cannot be read."""


def page_sizes(data: bytes, metadata: Any) -> Iterator[int]:
    """Yield the unpacked size [bytes] of every page of every column.  ``metadata``: the footer, read by pyarrow.

    Raises DamagedPages.
    """
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            start = chunk.data_page_offset  # Arrow computes the start of a column in this way
            if start <= 0:  # a group without rows, which no file with rows needs
                raise DamagedPages("a column without a beginning")
            if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
                start = chunk.dictionary_page_offset
            yield from _pages(data, start, start + chunk.total_compressed_size)


def _pages(data: bytes, at: int, end: int) -> Iterator[int]:
    if not 0 <= at <= end <= len(data):
        raise DamagedPages("a column that lies outside of the file")
    while at < end:
        reader = _Compact(data, at)
        sizes = reader.numbers()
        unpacked, packed = sizes.get(UNPACKED, -1), sizes.get(PACKED, -1)
        if unpacked < 0 or packed < 0:
            raise DamagedPages("a page without its size")
        yield unpacked
        at = reader.at + packed


class _Compact:
    """Reader of one Thrift structure; ``at``: the position of the next byte."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def numbers(self) -> dict[int, int]:
        """Return field number -> value of the integers in a structure.  Raises DamagedPages."""
        numbers: dict[int, int] = {}
        for field, kind in self._fields():
            if kind in (I16, I32, I64):
                numbers[field] = self._integer()
            else:
                self._skip(kind, 1)
        return numbers

    def _fields(self) -> Iterator[tuple[int, int]]:
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._integer()
            yield field, head & 15

    def _skip(self, kind: int, depth: int) -> None:
        if depth > MOST_DEPTH:
            raise DamagedPages("a page header that is nested too deep")
        if kind in (BYTE, DOUBLE):
            self.at += 1 if kind == BYTE else 8
        elif kind in (I16, I32, I64):
            self._varint()
        elif kind == BINARY:
            length = self._varint()
            self.at += length
        elif kind in (LIST, SET):
            head = self._byte()
            for _ in range(self._varint() if head >> 4 == 15 else head >> 4):
                self._skip_element(head & 15, depth)
        elif kind == STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        elif kind not in (TRUE, FALSE):  # a map: page headers have none
            raise DamagedPages("a page header of another kind")

    def _skip_element(self, kind: int, depth: int) -> None:
        if kind in (TRUE, FALSE):
            self._byte()  # in lists, booleans are bytes
        else:
            self._skip(kind, depth + 1)

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise DamagedPages("a page header that is cut off")
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise DamagedPages("a number of more than 64 bits")

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
