"""The registry: a package's own files register objects by name, other packages bring theirs as entry points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework.config.application import load_application
from framework.errors import MissingPrerequisite, UnknownName
from framework.load.registry import GENERATORS
from framework.model import EXTERNAL_GENERATORS
from framework.registry import Registry
from framework.traces.columns import SpanColumns
from framework.traces.files import detect, read_into
from framework.traces.registry import FORMATS, TraceFormat

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a package that registers an object of each kind, and one that is broken."""
    about = tmp_path / "elsewhere-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[tailor.things]\nhammer = elsewhere_things:HAMMER\nbroken = elsewhere_things:GONE\n"
        "[tailor.load_generators]\nwrk = elsewhere_things:generator\n"
        "[tailor.trace_formats]\ncsv = elsewhere_things:CSV\n"
    )
    (tmp_path / "elsewhere_things.py").write_text(
        "from framework.traces.registry import TraceFormat\n"
        "HAMMER = 'a hammer'\n"
        "def generator(application, containers): return application.name\n"
        "def read(columns, document): columns.lines = document.count(b'\\n')\n"
        "CSV = TraceFormat(lambda document: 0 if document.startswith(b'trace,span') else None, read)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


def test_what_other_packages_bring(elsewhere: None) -> None:
    things: Registry[str] = Registry("thing", "tailor.things")
    things.register("saw")("a saw")
    assert things.names() == ("saw", "broken", "hammer")
    assert (things.get("saw"), things.get("hammer")) == ("a saw", "a hammer")
    with pytest.raises(UnknownName, match="unknown thing 'nail'; known: broken, hammer, saw"):
        things.get("nail")
    things.register("hammer")("another hammer")
    with pytest.raises(MissingPrerequisite, match="several have the name of thing hammer: Tailor's own and elsewhere_"):
        things.get("hammer")
    with pytest.raises(MissingPrerequisite, match=r"thing broken \(elsewhere_things:GONE\) cannot be loaded"):
        things.get("broken")


def test_a_load_generator_is_named_by_the_application(elsewhere: None) -> None:
    assert set(GENERATORS.names()) == {"tailor", "wrk", *EXTERNAL_GENERATORS}
    application = load_application(ROOT / "apps" / "url-shortener")
    assert application.generator == "tailor"
    generator: Any = GENERATORS.get("wrk")
    assert generator(application, None) == "url-shortener"


def test_a_trace_format_is_read_where_it_is_named(elsewhere: None) -> None:
    assert set(FORMATS.names()) == {"jaeger", "otlp", "otlp-protobuf", "zipkin", "csv"}
    columns = SpanColumns()
    assert read_into(columns, b"trace,span\n1,2\n", "csv") == "csv"
    assert vars(columns).get("lines", 0) == 2


def test_the_first_sign_decides() -> None:
    assert detect(b'{"resourceSpans": [{"data": 1}]}') == "otlp"
    assert detect(b'{"data": [{"resourceSpans": 1}]}') == "jaeger"
    assert isinstance(FORMATS.get("zipkin"), TraceFormat)


def test_installed_packages_are_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader asks for its format once per document; looking through all packages took longer than reading it."""
    looked: list[str] = []

    def look(group: str) -> tuple[()]:
        looked.append(group)
        return ()

    monkeypatch.setattr("framework.registry.entry_points", look)
    things: Registry[str] = Registry("thing", "tailor.looked_for_once")
    things.register("saw")("a saw")
    assert [things.get("saw") for _ in range(3)] == ["a saw"] * 3
    assert looked == ["tailor.looked_for_once"]
