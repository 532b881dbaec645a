"""YAML is read as written: no surprises of YAML 1.1, no silent loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework.config.document import key_text, read_document
from framework.errors import FileError


def read(text: str, path: Path) -> Any:
    file = path / "file.yaml"
    file.write_text(text)
    return read_document(file).data


@pytest.mark.parametrize(
    "text",
    ["yes", "no", "on", "off", "Yes", "y", "1:30", "22:22:22", "2024-01-01", "1_000", "0777", "09", "1.2.3", "="],
)
def test_surprises_of_yaml_1_1_stay_strings(text: str, tmp_path: Path) -> None:
    assert read(f"key: {text}\n", tmp_path) == {"key": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("False", False), ("12", 12), ("-3", -3), ("0", 0), ("0x1F", 31), ("0o17", 15), ("1.5", 1.5),
     ("1e3", 1000.0), (".5", 0.5), ("~", None), ("null", None), ("", None), ('"12"', "12"), ("'true'", "true"),
     ("|\n  12\n", "12\n"), ("-.inf", float("-inf"))],
)  # fmt: skip
def test_plain_values_of_yaml_1_2(text: str, value: object, tmp_path: Path) -> None:
    loaded = read(f"key: {text}\n", tmp_path)["key"]
    assert (type(loaded), loaded) == (type(value), value)


def test_an_anchor_may_be_used_again_without_a_word(tmp_path: Path) -> None:
    assert read("a: &x 1\nb: *x\nc: &x 2\nd: *x\n", tmp_path) == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_keys_are_text_as_written(tmp_path: Path) -> None:
    assert read("true: a\n8080: b\non: c\n1.0: d\n", tmp_path) == {"true": "a", "8080": "b", "on": "c", "1.0": "d"}


def test_merge_keys_of_compose_files(tmp_path: Path) -> None:
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\none: {<<: *x, b: 9}\ntwo:\n  <<: [*x, *y]\n  d: 4\n"
    data = read(text, tmp_path)
    assert data["one"] == {"a": 1, "b": 9}
    assert data["two"] == {"a": 1, "b": 1, "c": 2, "d": 4}


def test_lines_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("a:\n  b:\n    - 1\n    - {c: 2}\n")
    document = read_document(path)
    assert document.lines[("a", "b", 1, "c")] == 4
    assert str(document.error(("a", "b", 1, "c"), 2, "3")) == f"{path}: line 4: a.b[1].c: found 2; allowed: 3"
    assert document.error(("a", "missing"), "nothing", "something").key == "line 1: a.missing"
    assert key_text(("a", 0, "b")) == "a[0].b"


def test_many_aliases_of_aliases_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(FileError, match="aliases multiply"):
        read("\n".join(lines), tmp_path)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a: \x00\n"])
def test_bytes_that_are_not_text(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    with pytest.raises(FileError):
        read_document(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        read_document(tmp_path / "missing.yaml")
    with pytest.raises(FileError, match="regular file"):
        read_document(tmp_path)
