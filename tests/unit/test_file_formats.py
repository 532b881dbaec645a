"""Every file that Tailor reads, spoilt in every way: it is understood or refused with the reason, nothing else.

A few hundred cases here; TAILOR_FORMAT_CASES asks for more of each format (experiments/bad-input/ has a campaign).
"""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from framework.config.application import load_application
from framework.config.bottlenecks_file import load_bottlenecks
from framework.config.configuration_file import load_configuration
from framework.config.knowledge import load_service_type, load_service_types, resolved
from framework.config.load_profile_file import read_load_profile
from framework.config.machine_catalogue import load_catalogue
from framework.config.need_file import load_need
from framework.config.results_file import load_results
from framework.config.space import search_space
from framework.config.twin_file import load_twin
from framework.config.workload_content import load_workload_document
from framework.errors import InputError, TailorError
from framework.model import TuneRequest
from framework.placement.profile import ColocationPair, Profile, ProfileHeader, ProfileWindow, StressorProbe
from framework.placement.space import load_profile
from framework.testbeds.host.counters import read_perf
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from tests.fakes import pretend_tailor

ROOT = Path(__file__).resolve().parents[2]
GOOD = ROOT / "tests" / "cases" / "good"
CASES = int(os.environ.get("TAILOR_FORMAT_CASES", "40"))
MOST_CHARACTERS = 6_000  # the longest reason: a person reads it

Reader = Callable[[Path], Any]


@dataclass(frozen=True)
class Format:
    """A file format: ``file`` is a good file, later overwritten; ``read`` raises Tailor's own errors only."""

    file: Path
    read: Reader


# ---------------------------------------------------------------------- good files of every format


def social_network() -> Any:
    application = load_application(ROOT / "apps" / "social-network")
    return search_space(application, resolved(load_service_types(), cores=2, memory_mib=8192), cores=2, memory_mib=8192)


def application_format(name: str) -> Callable[[Path], Format]:
    def made(directory: Path) -> Format:
        copied = directory / "shop"
        shutil.copytree(GOOD / "shop", copied)
        return Format(copied / name, lambda path: load_application(copied))

    return made


def copied(source: Path, read: Callable[[], Reader]) -> Callable[[Path], Format]:
    def made(directory: Path) -> Format:
        return Format(Path(shutil.copy(source, directory)), read())

    return made


def profile_format(directory: Path) -> Format:
    about = ProfileHeader("shop", "0", {"cores": 2}, "0", "1", 100.0, 1.0, 5.0, 1, {"a": 0.5, "b": 0.1})
    windows = [ProfileWindow("a", "l3", 1, 1.0, 0, 1, 99, 5.0, 4.0, 9.0, 12.0, 100.0, 0.3, 0.0, 9.0, 70.0)]
    whole = Profile(about, windows, [StressorProbe("l3", 0.0, 90.0)], [ColocationPair("a", "b", 0, False, 4.0)])
    path = directory / "profile.jsonl"
    path.write_text(whole.to_lines())
    application = load_application(GOOD / "shop")
    return Format(path, lambda spoilt: load_profile(spoilt, application))


def study_format(directory: Path) -> Format:
    """Export a study as `tailor export` does."""
    machine = PretendMachine(VirtualClock(), lambda configuration: 10.0, noise=0.05)
    tailor, _ = pretend_tailor(directory, machine)
    request = TuneRequest(
        GOOD / "small", rate_rps=100.0, iterations=2, repetitions=1, pairs=2, drift_every=0, minimal=0
    )
    sharing = tailor.sharing
    study = tailor.studies.run(tailor.studies.create(request).id, lambda event: None)
    path = directory / "study.zip"
    path.write_bytes(sharing.pack(study.id))
    tailor.store.delete(study.id)

    def read(spoilt: Path) -> None:
        tailor.store.delete(sharing.unpack(spoilt).id)

    return Format(path, read)


FORMATS: dict[str, Callable[[Path], Format]] = {
    "application": application_format("application.yaml"),
    "compose file": application_format("compose.yaml"),
    "need": copied(ROOT / "examples" / "need.yaml", lambda: load_need),
    "machine catalogue": copied(ROOT / "examples" / "machines.yaml", lambda: load_catalogue),
    "workload": copied(GOOD / "shop" / "workload.yaml", lambda: load_workload_document),
    "service type": copied(ROOT / "search_spaces" / "nginx.yaml", lambda: load_service_type),
    "load profile": copied(ROOT / "examples" / "day.yaml", lambda: partial(read_load_profile, rate_rps=100.0)),
    "results": copied(GOOD / "shop" / "results.yaml", lambda: load_results),
    "twin": copied(GOOD / "twins" / "url-shortener.json", lambda: load_twin),
    "configuration": copied(
        ROOT / "apps" / "social-network" / "configurations" / "expert.yaml",
        lambda: partial(load_configuration, space=social_network()),
    ),
    "bottlenecks": copied(
        ROOT / "experiments" / "figure3" / "bottlenecks.yaml",
        lambda: partial(load_bottlenecks, space=social_network()),
    ),
    "perf": copied(
        ROOT / "tests" / "cases" / "perf" / "intel-topdown.csv",
        lambda: lambda path: read_perf(path.read_bytes().decode("utf-8", "replace")),
    ),
    "profile": profile_format,
    "study": study_format,
}

# ---------------------------------------------------------------------- ways to spoil them

JUNK = [
    b"\x00", b"\xff\xfe", b"&a [*a, *a]", b"*nothing", b"[" * 3000, b"{a: " * 3000, b"9" * 6000, b"1e999", b"-.inf",
    b".nan", b"!!python/object/apply:os.system [id]", b"%YAML 1.1\n", b"---\n---\n", b"../../../etc/passwd",
    b"${HOME}", b"$(id)", b"\xe2\x80\xae", b"'", b'"', b":", b"- ", b"\t", b"\n" * 50, b"null", b"true", b"-1", b"0",
    b"{}", b"[]", b";;;;;;;;",
]  # fmt: skip
TEXTS = (
    "", "a" * 5000, "../..", "/etc/passwd", "__class__", "{value}", "cores * ", "1 GiB", "default", "10 ** 10 ** 10",
)  # fmt: skip
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(TEXTS)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def cut(draw: st.DrawFn, good: bytes) -> bytes:
    """Draw the bytes with a few slices removed, doubled or replaced by junk."""
    text = good
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 40) | st.integers(0, 4000)))
        junk = draw(st.sampled_from([b"", text[begin:end] * 2, *JUNK]) | st.binary(max_size=12))
        text = text[:begin] + junk + text[end:]
    return text


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """Draw the tree with one value replaced, removed, added or repeated."""
    place, path = document, []
    while isinstance(place, dict | list) and place and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        path.append(key)
        place = place[key]
    made = json.loads(json.dumps(document))
    if not path:
        return draw(values)
    above = made
    for key in path[:-1]:
        above = above[key]
    how = draw(st.sampled_from(["replace", "remove", "add", "again"]))
    if how == "remove":
        del above[path[-1]]
    elif how == "add" and isinstance(above, dict):
        above[draw(st.text(max_size=12))] = draw(values)
    elif how == "again" and isinstance(above, list):
        above.append(above[path[-1]])
    else:
        above[path[-1]] = draw(values)
    return made


def spoilt(data: st.DataObject, good: bytes, name: str) -> bytes:
    if name == "study":
        return spoilt_study(data, good)
    if name == "perf" or data.draw(st.booleans()):
        return data.draw(cut(good))
    if name == "profile":  # a document on every line
        lines = good.decode().splitlines()
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = json.dumps(data.draw(changed(json.loads(lines[at]))))
        return ("\n".join(lines) + "\n").encode()
    document = YAML(typ="safe", pure=True).load(good.decode())
    return json.dumps(data.draw(changed(json.loads(json.dumps(document))))).encode()  # JSON is YAML


def spoilt_study(data: st.DataObject, good: bytes) -> bytes:
    """Spoil the file itself, or one of its parts."""
    if not data.draw(st.integers(0, 3)):
        return data.draw(cut(good))
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(buffer, "w") as new:
        names = old.namelist()
        chosen = data.draw(st.sampled_from(["study.json", "study.json", *names]))
        for name in names:
            part = old.read(name)
            if name == chosen and name == "study.json":
                part = json.dumps(data.draw(changed(json.loads(part)))).encode()
            elif name == chosen:
                part = data.draw(cut(part))
            new.writestr(data.draw(st.sampled_from(["../x", "/x", name])) if name == chosen else name, part)
    return buffer.getvalue()


# ---------------------------------------------------------------------- the test


@pytest.mark.parametrize("name", FORMATS)
def test_it_is_understood_or_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    form = FORMATS[name](tmp_path)
    good = form.file.read_bytes()
    form.read(form.file)
    reasons: list[str] = []

    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        derandomize=CASES <= 40,
        phases=[Phase.generate],  # a spoilt file does not get clearer by being made smaller
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def read(data: st.DataObject) -> None:
        form.file.write_bytes(spoilt(data, good, name))
        try:
            form.read(form.file)
        except TailorError as error:
            reasons.append(str(error))

    read()
    assert all(0 < len(reason) < MOST_CHARACTERS for reason in reasons)
    assert len(reasons) > CASES / 10, "hardly anything was spoilt"


# ---------------------------------------------------------------------- files that a campaign showed to be a problem


def test_a_set_within_a_set_is_no_pattern(tmp_path: Path) -> None:
    """Python warns of such a pattern: its meaning will change in a later version."""
    form = FORMATS["service type"](tmp_path)
    good = r'"^\\s*keepalive\\s"'
    text = form.file.read_text()
    assert good in text
    form.file.write_text(text.replace(good, '"^[[a]"'))
    with pytest.raises(InputError, match="a regular expression"):
        form.read(form.file)


def test_a_reason_does_not_repeat_a_whole_file(tmp_path: Path) -> None:
    form = FORMATS["perf"](tmp_path)
    form.file.write_text("x" * 1_000_000)
    with pytest.raises(InputError, match="characters more") as refused:
        form.read(form.file)
    assert len(str(refused.value)) < MOST_CHARACTERS


def test_a_study_whose_configuration_holds_a_list_is_refused(tmp_path: Path) -> None:
    form = FORMATS["study"](tmp_path)
    with zipfile.ZipFile(form.file) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    document = json.loads(parts["study.json"])
    document["trials"][0]["configuration"]["cache.connections"] = []
    parts["study.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(form.file, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    with pytest.raises(InputError, match="cannot be read"):
        form.read(form.file)
