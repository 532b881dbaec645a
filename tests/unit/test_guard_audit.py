"""Audit logs of guards: what was written is read, and summed up; pages, API and metrics tell it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from framework.api.guarding import guard_view
from framework.errors import NotFound
from framework.guard.audit import AUDIT, Audits, read_audit
from framework.model.guard import Sample
from framework.model.guard_record import Began, Decided, entry_document, entry_of
from framework.report.guard import guard_page, summarised, thinned
from framework.report.page import ENVIRONMENT
from tests.guard_audits import entries, written
from tests.serving import serving


def test_what_was_written_is_read(tmp_path: Path) -> None:
    name = written(tmp_path, entries())
    assert Audits(tmp_path).followed(name).after(-1.0) == entries()
    path = tmp_path / "guard" / name / AUDIT
    with path.open("a") as file:
        file.write('{"kind": "noted", "time')  # the power went
    assert read_audit(path) == entries()
    for line in path.read_text().splitlines()[:-1]:
        json.loads(line)


def test_a_log_from_before_disks_were_divided_is_read() -> None:
    for entry in entries():
        document = json.loads(json.dumps(entry_document(entry), allow_nan=False))
        for holder in (document.get("host", {}), document.get("sample", {}), document.get("decision", {})):
            for name in ("disk_mbs", "lc_disk_mbs"):
                holder.pop(name, None)
                holder.get("setting", {}).pop(name, None)
        read = entry_of(document)
        if isinstance(read, Began):
            assert read.host.disk_mbs == 0
        if isinstance(read, Decided):
            assert (read.sample.lc_disk_mbs, read.decision.setting.disk_mbs) == (None, None)


def test_sums_count_each_decision_until_the_next_and_a_missing_latency_as_missed() -> None:
    summary = summarised(entries())
    assert summary.time_s == 4.0, "the first sample, before anything was measured, does not count"
    assert (summary.violation_s, summary.blind_s, summary.worst_ms) == (3.0, 2.0, 25.0)
    assert summary.violation == 0.75
    assert summary.work_s == 1.0
    assert summary.utilisation == pytest.approx((1.5 + 0.5 + 0.5 * 2) / 8)


def test_the_page_says_what_happened_and_escapes_what_it_shows() -> None:
    page = guard_page(entries())
    assert "missed 20 ms in 75.00 % of 4 s" in page
    assert "Not here: pressure: no PSI" in page
    assert "Not given back: cpuset of x" in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert page.count("<svg") == 1
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")


def test_a_guard_that_has_just_begun_has_a_page() -> None:
    assert "tailor" in guard_page(entries()[:1])


def test_two_guards_of_one_second_have_two_directories(tmp_path: Path) -> None:
    names = [Audits(tmp_path).new().name for _ in range(3)]
    assert len(set(names)) == 3


def test_guards_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path, monkeypatch) as here:
        assert here.get("/guards") == []
        home = here.kept.backends.home
        ended = written(home, entries())
        [listed] = here.get("/guards")
        assert (listed["id"], listed["running"], listed["violation"]) == (ended, False, 0.75)
        assert len(here.get(f"/guards/{ended}?after_s=2.5")["entries"]) == 4
        here.get("/guards/other", 404)
        here.get("/guards/..", 404)
        assert "tailor_guard" not in here.client.get("/v1/metrics").text
        assert ended in here.client.get("/guards").text
        assert "missed 20 ms" in here.client.get(f"/guards/{ended}").text
        runs = written(home, entries()[:-1])
        assert f'data-live="/guards/{runs}/body"' in here.client.get(f"/guards/{runs}").text
        metrics = here.client.get("/v1/metrics").text
        assert 'tailor_guard_latency_ms{guarded="shop <i>"} 12' in metrics
        assert 'tailor_guard_be_cores_allowed{guarded="shop <i>"} 1' in metrics
        os.utime(home / "guard" / runs / AUDIT, (0, 0))
        assert Audits(home).running(runs) is False, "killed long ago"


def test_a_guard_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        Audits(tmp_path).followed("../../etc")


def test_a_log_that_grows_is_read_on_from_where_it_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framework.guard.audit.MARK_EVERY", 2)
    every = entries()
    name = written(tmp_path, every[:4])
    audits, path = Audits(tmp_path), tmp_path / "guard" / name / AUDIT
    log = audits.followed(name)
    assert log.after(-1.0) == every[:4]
    assert log.ended is None
    rest = b"".join(json.dumps(entry_document(entry)).encode() + b"\n" for entry in every[4:])
    for cut in (10, len(rest) // 2, len(rest)):  # a line may be half written when it is read
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4]) + rest[:cut])
        assert audits.followed(name) is log
    assert log.after(-1.0) == every
    assert log.ended == every[-1]
    whole, grown = summarised(every), log.summary
    assert (grown.time_s, grown.violation_s, grown.work_s) == (whole.time_s, whole.violation_s, whole.work_s)
    for time_s in (-1.0, 0.0, 0.5, 1.0, 2.9, 3.0, 5.0, 6.0):
        assert log.after(time_s) == [entry for entry in every if entry.time_s > time_s]


def test_a_guard_that_has_written_nothing_yet_is_not_there(tmp_path: Path) -> None:
    log = Audits(tmp_path).new() / AUDIT
    log.touch()
    assert Audits(tmp_path).ids() == []
    log.write_text('{"kind": "beg')
    [guard] = Audits(tmp_path).ids()
    with pytest.raises(NotFound, match="has written nothing yet"):
        _ = Audits(tmp_path).followed(guard).summary


def test_a_long_guard_s_page_shows_its_last_hour_and_the_sums_of_all(tmp_path: Path) -> None:
    every = entries()
    late = [replace(entry, time_s=entry.time_s + 5000.0) for entry in every[1:]]
    name = written(tmp_path, [every[0], *every[1:-1], *late])
    contents = guard_view(Audits(tmp_path), name)
    assert contents["since_s"] == 5005.0 - 3600.0
    assert len(contents["jobs"]) == 1
    assert contents["summary"].time_s > 5000.0
    assert "from 1405 s on" in ENVIRONMENT.get_template("guard_body.html").render(contents)


def test_a_figure_of_many_decisions_keeps_the_worst_of_each_stretch() -> None:
    [some, *_] = [entry for entry in entries() if isinstance(entry, Decided)]
    latencies = [None if n == 700 else 10.0 + (n == 250) for n in range(1001)]
    many = [replace(some, time_s=0.5 * n, sample=Sample(0.5 * n, latency)) for n, latency in enumerate(latencies)]
    few = thinned(many, 100)
    assert len(few) == 100
    assert many[250] in few
    assert many[700] in few
    assert [entry.time_s for entry in few] == sorted(entry.time_s for entry in few)
    assert thinned(many, 2000) is many
