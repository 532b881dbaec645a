"""Data that Tailor writes as YAML are read back unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.config.document import read_document
from framework.config.writing import to_yaml

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text("abcxyz:-_ .#{}[]'\"\n$@%", max_size=20)
)
DATA = st.dictionaries(
    st.text("abc", min_size=1, max_size=3),
    st.recursive(
        SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("ab", min_size=1), inner))
    ),
    max_size=4,
)


@given(DATA)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("yaml") / "a.yaml"
    path.write_text(to_yaml(document))
    assert read_document(path).data == document


@pytest.mark.parametrize("text", ["on", "no", "1:30", "8080:80", "1_000", "2024-01-01", "0777", "1e3", "~", "0x1f"])
def test_text_that_yaml_1_1_reads_otherwise_is_quoted(text: str) -> None:
    assert to_yaml({"a": text}) == f'a: "{text}"\n'


def test_a_path_is_left_plain(tmp_path: Path) -> None:
    assert (
        to_yaml({"a": "./files/nginx.conf:/etc/nginx/nginx.conf:ro"})
        == "a: ./files/nginx.conf:/etc/nginx/nginx.conf:ro\n"
    )
