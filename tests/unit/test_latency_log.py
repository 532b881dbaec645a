"""Log files that are followed: any split of writes and rotations loses and doubles nothing; times of requests."""

from __future__ import annotations

import os
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import FieldError, Transient
from framework.telemetry.latency import latency_source
from framework.telemetry.latency.access_log import AccessLogSource, Times, access_log
from framework.telemetry.latency.log_follower import LONGEST, OLD_S, LogFollower
from framework.telemetry.latency.source import IDLE, Place

# ------------------------------------------------------------------ following

WRITE, LOOK, RENAME, REOPEN, CUT = "write", "look", "rename", "reopen", "cut"
actions = st.lists(
    st.one_of(
        st.tuples(st.just(WRITE), st.binary(max_size=12)),
        st.tuples(st.sampled_from([LOOK, RENAME, REOPEN, CUT]), st.just(b"")),
    ),
    max_size=60,
)


@given(before=st.binary(max_size=20), script=actions)
def test_nothing_is_lost_or_doubled(before: bytes, script: list[tuple[str, bytes]]) -> None:
    """A writer writes any bytes, also to a file that was renamed; it opens the new one when it is told.

    It looks before a file is cut off or a second one renamed: what is gone before it was seen is gone.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "access.log"
        path.write_bytes(before)
        follower = LogFollower(path)
        follower.begin()
        writer, texts = path.open("ab", buffering=0), [before]
        seen, renamed = list[bytes](), 0
        for action, text in [*script, (REOPEN, b""), (LOOK, b"")]:
            if action == WRITE:
                writer.write(text)
                texts[-1] += text
            elif action == RENAME and path.exists():
                renamed += 1
                path.rename(path.with_name(f"access.log.{renamed}"))
            elif action == REOPEN and not path.exists():
                writer.close()
                writer = path.open("ab", buffering=0)
                texts.append(b"")
                seen += follower.lines(0.0)
            elif action == CUT and path.exists():
                seen += follower.lines(0.0)
                writer.truncate(0)
                if texts[-1]:
                    assert follower.lines(0.0) == []
                texts.append(b"")
            elif action == LOOK:
                try:
                    seen += follower.lines(0.0)
                except FileNotFoundError:
                    assert not path.exists()
        written = [line for text in texts for line in text.split(b"\n")[:-1]]
        assert sorted(seen) == sorted(written[before.count(b"\n") :])
        writer.close()
        follower.close()


@given(text=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=10))
def test_lines_come_in_their_order_however_they_are_written(text: bytes, cuts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "access.log"
        path.touch()
        follower, seen = LogFollower(path), list[bytes]()
        follower.begin()
        edges = [0, *sorted(cuts), len(text)]
        with path.open("ab", buffering=0) as writer:
            for start, end in pairwise(edges):
                writer.write(text[start:end])
                seen += follower.lines(0.0)
        assert seen == text.split(b"\n")[:-1]
        follower.close()


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(("length", "passes"), [(LONGEST, True), (LONGEST + 1, False), (5 * LONGEST, False)])
def test_a_line_that_is_too_long_is_passed_over(tmp_path: Path, pieces: int, length: int, passes: bool) -> None:
    path = tmp_path / "access.log"
    path.touch()
    follower, text = LogFollower(path), b"a\n" + b"x" * length + b"\nb\n"
    follower.begin()
    seen = list[bytes]()
    with path.open("ab", buffering=0) as writer:
        for piece in range(pieces):
            writer.write(text[piece * len(text) // pieces : (piece + 1) * len(text) // pieces])
            seen += follower.lines(0.0)
    assert [line[:1] for line in seen] == ([b"a", b"x", b"b"] if passes else [b"a", b"b"])
    follower.close()


def test_a_renamed_file_is_let_go_when_nothing_more_comes(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.touch()
    follower = LogFollower(path)
    follower.begin()
    opened = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a directory that changes while it is read
    path.rename(tmp_path / "access.log.1")
    path.touch()
    follower.lines(1.0)
    assert len(os.listdir("/proc/self/fd")) == opened + 1  # noqa: PTH208
    follower.lines(1.0 + OLD_S + 1)
    assert len(os.listdir("/proc/self/fd")) == opened  # noqa: PTH208
    follower.close()


def test_a_file_that_is_renamed_back_is_not_read_again(tmp_path: Path) -> None:
    path, aside = tmp_path / "access.log", tmp_path / "aside"
    path.touch()
    follower = LogFollower(path)
    follower.begin()
    path.write_bytes(b"1\n")
    assert follower.lines(0.0) == [b"1"]
    path.rename(aside)
    path.write_bytes(b"2\n")
    assert follower.lines(0.0) == [b"2"]
    aside.replace(path)
    with path.open("ab") as writer:
        writer.write(b"3\n")
    assert follower.lines(0.0) == [b"3"]
    follower.close()


# ------------------------------------------------------------------ times


@pytest.mark.parametrize(
    ("pattern", "line", "time_ms"),
    [
        ("", b'1.2.3.4 "GET / HTTP/1.1" 200 612 0.005', 5.0),
        ("", b'1.2.3.4 "GET / HTTP/1.1" 200 612 "0.005"\r', 5.0),
        ("", b"took 2", 2000.0),
        ("", b"rt=0.25", 250.0),
        ("", b'{"path": "/", "request_time": 0.5}', 500.0),
        ("", b'1.2.3.4 "GET / HTTP/1.1" 200 612 "-" "curl/7.88"', None),  # the 612 are bytes
        ("", b"0.005 -", None),
        ("", b"at 12:00:01", None),
        ("", b"version 1.2.3", None),
        ("", b"\xff\xfe 0.005", 5.0),
        ("", b"", None),
        (r" us=(?P<us>\d+)", b"GET us=1500 b=9", 1.5),
        (r"(?P<ms>[\d.]+)ms", b"GET 1.5ms", 1.5),
        (r"t=(?P<seconds>\S+)", b"t=0.1 9", 100.0),
        (r"t=(?P<seconds>\S+)", b"t=- 9", None),
        (r"t=(?P<seconds>\S+)", b"t=nan", None),
        (r"t=(?P<seconds>\S+)", b"t=-1", None),
        (r"t=(?P<seconds>\S+)?", b"t=", None),
        ("GET /api", b"GET /api 0.1", 100.0),
        ("GET /api", b"GET /health 0.1", None),
    ],
)
def test_the_time_of_a_line(pattern: str, line: bytes, time_ms: float | None) -> None:
    assert Times(pattern).of(line) == (None if time_ms is None else pytest.approx(time_ms))


def source_of(path: Path) -> AccessLogSource:
    source = access_log(Place(str(path), 0.95))
    assert isinstance(source, AccessLogSource)
    return source


def test_a_log_gives_rate_and_quantile_of_its_last_window(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("GET / 200 9.0\n" * 50)
    source = source_of(path)
    assert source.begin(10.0) == {}
    assert source.look(10.25) == IDLE
    with path.open("a") as writer:
        writer.write("GET / 200 0.010\n" * 19 + "GET / 200 0.500\n" + "something else\n")
    assert source.look(10.5) == pytest.approx({"rate_rps": 40.0, "latency_ms": 10.0})
    for step in range(3, 9):
        source.look(10.0 + step / 4)
    assert source.look(12.25) == pytest.approx({"rate_rps": 10.0, "latency_ms": 10.0})
    assert source.look(12.5) == IDLE
    path.unlink()
    with pytest.raises(Transient, match="No such file"):
        source.look(12.75)
    path.write_text("GET / 200 0.020\n")  # it is back
    assert source.look(13.0)["latency_ms"] == pytest.approx(20.0)
    source.close()


def test_a_log_of_something_else_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    with pytest.raises(FieldError, match="No such file"):
        latency_source(f"access-log={path}", 0.95)
    with pytest.raises(FieldError, match="regular file"):
        latency_source(f"access-log={tmp_path}", 0.95)
    os.mkfifo(path)
    with pytest.raises(FieldError, match="regular file"):
        latency_source(f"access-log={path}", 0.95)
    path.unlink()
    path.write_text('"GET / HTTP/1.1" 200 612 "-" "curl/7.88"\n')
    with pytest.raises(FieldError, match="end with the request time"):
        latency_source(f"access-log={path}", 0.95)


def test_a_long_log_is_looked_at_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("no time here\n" * LONGEST + "GET / 0.1\n")
    sensor = latency_source(f"access-log={path}", 0.95)
    assert sensor.missing() == ""
    sensor.close()
