"""Measurements of energy over HTTP: listed, shown, as JSON, as pages and as counters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from framework.energy.totals import totals
from tests.energy_machine import energy_kept, energy_measured
from tests.serving import Here, serving


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with pytest.MonkeyPatch.context() as patch, serving(tmp_path_factory.mktemp("energy"), patch) as server:
        yield server


def test_measurements_are_listed_and_shown(here: Here) -> None:
    assert here.get("/energy") == []
    assert "tailor energy APP" in here.client.get("/energy").text
    assert "energy_joules" not in here.client.get("/v1/metrics").text
    shop = energy_kept(here.kept.backends.home)
    [listed] = here.get("/energy")
    assert (listed["application"], listed["label"], listed["windows"], listed["left_out"]) == (
        "shop",
        "estimated",
        9,
        0,
    )
    answer = here.get(f"/energy/{shop}")
    [run] = answer["runs"]
    assert run["whole_j"]["value"] == pytest.approx(160.0 / 50.1, rel=0.01)
    assert answer["label"] == "estimated"
    report = here.client.get(f"/v1/energy/{shop}/report")
    assert report.status_code == 200
    assert report.text.count("estimated, not measured") >= 2, "each figure of joules says it"
    assert "a processor &lt;x&gt;" in report.text
    page = here.client.get(f"/energy/{shop}").text
    assert "ESTIMATED" in page
    assert "/energy/shop" in here.client.get("/energy").text
    here.get("/energy/other", 404)
    here.get("/energy/..", 404)
    assert here.client.get("/energy/other").status_code == 404


def test_joules_are_counters_of_prometheus(here: Here) -> None:
    energy_kept(here.kept.backends.home)
    lines = here.client.get("/v1/metrics").text.splitlines()
    counters = [line for line in lines if line.startswith("tailor_energy_joules_total{")]
    assert "# TYPE tailor_energy_joules_total counter" in lines
    assert any('service="web"' in line and 'state="active"' in line for line in counters)
    whole = sum(window.whole.value for window in energy_measured().windows if window.whole is not None)
    assert sum(float(line.rpartition(" ")[2]) for line in counters) == pytest.approx(whole, rel=1e-4)
    assert sum(total.joules for total in totals(energy_measured())) == pytest.approx(whole)


def test_a_file_that_cannot_be_read_is_left_out(here: Here) -> None:
    energy_kept(here.kept.backends.home)
    broken = here.kept.backends.home / "energy" / "broken.json"
    broken.write_text("{")
    try:
        assert [item["application"] for item in here.get("/energy")] == ["shop"]
        answer = here.get("/energy/broken", 404)
        assert str(here.kept.backends.home) not in str(answer)
    finally:
        broken.unlink()
