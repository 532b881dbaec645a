"""Results of load generators of others that are damaged, missing, or of an unusual shape."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import LoadFailed
from framework.load.h2load import H2load
from framework.load.invocation import Finished, Invocation, Tool
from framework.load.jmeter import JMeter, samples_of
from framework.load.k6 import K6
from framework.load.key_value import KeyValue
from framework.load.locust import Locust
from framework.load.request_rows import MOST_NAMES, OTHER, RequestRows
from framework.load.vegeta import Vegeta
from framework.load.wrk2 import spectrum_of
from tests.unit.test_load_external import TOOLS, task


@pytest.mark.parametrize(
    ("tool", "name", "content"),
    [
        (Vegeta(), "vegeta.csv", b"1,2,3\n"),
        (Vegeta(), "vegeta.csv", b"1,x,3,4,5,,,,0\n"),
        (H2load(), "h2load.tsv", b"a\tb\tc\n"),
        (H2load(), "h2load.tsv", b"-5\t200\t1\n"),
        (KeyValue(), "bursts.tsv", b"1\t200\n"),
        (K6(), "k6.json", b'{"type":"Point","metric":"http_req_duration","data":{}}\n{"metric":"http_req_blocked"\n'),
        (Locust(), "locust.csv", b"1,2\n"),
        (Locust(), "locust.csv", b"inf,2,GET /,200,\n"),
        (JMeter(), "jmeter.jtl", b"timeStamp,elapsed\n1,2\n"),
        (JMeter(), "jmeter.jtl", b"timeStamp,elapsed,label,responseCode,success\n1,2\n"),
        (JMeter(), "jmeter.jtl", b"<testResults><httpSample"),
        (JMeter(), "jmeter.jtl", b"<testResults><httpSample t='1'/></testResults>"),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_damaged_results_are_a_failed_load(tool: Tool, name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LoadFailed):
        tool.read(task(), Finished(b"", tmp_path, time.time_ns()))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_missing_results_are_a_failed_load(tool: Tool, tmp_path: Path) -> None:
    with pytest.raises(LoadFailed):
        tool.read(task(), Finished(b"", tmp_path, time.time_ns()))


@given(st.binary(max_size=400))
def test_any_bytes_are_results_or_a_failed_load(content: bytes) -> None:
    for tool in TOOLS:
        with_file = tool.invocation(task())
        for name in with_file.converted or with_file.outputs:
            _any(tool, with_file, name, content)
    with pytest.raises(LoadFailed):
        spectrum_of(content.decode(errors="replace"))


def _any(tool: Tool, invocation: Invocation, name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / name).write_bytes(content)
        try:
            told = tool.read(task(), Finished(b"", Path(directory), time.time_ns()))
        except LoadFailed:
            return
        assert len(told.rows) <= len(content)


def test_many_names_become_one() -> None:
    rows = RequestRows()
    for number in range(2 * MOST_NAMES):
        rows.add(10, 20, 200, ok=False, name=f"n{number}", reason=f"r{number}")
    result = rows.result(10, 0.0, 1.0)
    assert len(result.classes) == MOST_NAMES + 1
    assert result.classes[result.request_class[-1]] == OTHER
    assert sum(result.errors.values()) == 2 * MOST_NAMES


def test_samples_inside_others_are_parts_of_them(tmp_path: Path) -> None:
    path = tmp_path / "a.jtl"
    path.write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n<testResults version="1.2">\n'
        '<httpSample t="30" lt="20" ts="1700000000000" s="true" lb="page" rc="200" rm="OK">'
        '<httpSample t="10" ts="1700000000005" s="true" lb="picture" rc="200"/></httpSample>\n'
        '<sample t="5" ts="1700000000100" s="false" lb="query" rc="java.sql.SQLException" rm="x"/>\n</testResults>\n'
    )
    result = samples_of(path).result(1_700_000_000_000_000_000, 0.0, 1.0)
    assert result.classes == ("page", "query")
    assert result.ok.tolist() == [True, False]
    assert (result.end_ns[0] - result.sent_ns[0]) / 1e6 == 30
    assert (result.status.tolist(), result.end_ns[1]) == ([200, 0], 0)
    assert result.errors == {"java.sql.SQLException": 1}
