"""The pages in a real browser: nothing is loaded from elsewhere, nothing sticks out, every figure is drawn."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from framework.critical_path.analysis import View, analyse
from framework.critical_path.comparison import between
from framework.model.capacity import ScalingPoint
from framework.report.page import page as study_page
from framework.report.plan_page import plan_page
from framework.report.summary import summarise
from framework.report.trace_page import trace_page
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine, larger_is_faster
from framework.traces.files import read_all
from framework.use_cases.capacity import PlanRequest, plan_machines
from tests.fakes import begun, pretend_bench
from tests.unit.test_procedure import PLAN

REAL = Path(__file__).resolve().parents[1] / "cases" / "traces" / "real"
WIDTHS = (1400, 800)
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PLANNED = PlanRequest(
    EXAMPLES / "need.yaml", [EXAMPLES / "machines.yaml"], reads=[ScalingPoint(16, 1_123_453)], draws=100
)

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A study's report, an analysis, and a comparison of two."""
    directory = tmp_path_factory.mktemp("pages")
    bench = pretend_bench(directory, PretendMachine(VirtualClock(), larger_is_faster, noise=0.02))
    study, procedure = begun(bench, PLAN)
    finished = procedure.run()
    trials = list(bench.store.trials(study.id))
    media, hotel = (analyse(read_all([str(path)]), View()) for path in sorted(REAL.glob("*.json.gz"))[1::-1])
    written = {
        "study": study_page(summarise(finished, trials, bench.application, bench.types), trials),
        "analysis": trace_page(media, None, ""),
        "comparison": trace_page(media, between(media.table, hotel.table), "hotel"),
        "plan": plan_page(plan_machines(PLANNED)),
    }
    files = {}
    for name, text in written.items():
        files[name] = directory / f"{name}.html"
        files[name].write_text(text)
    return files


def opened(browser: Browser, path: Path, width: int) -> tuple[Page, list[str]]:
    """Return the page, and its errors and requests to other hosts."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(path.as_uri())
    return page, wrong


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["study", "analysis", "comparison", "plan"])
def test_a_page_stands_alone_and_fits(browser: Browser, pages: dict[str, Path], name: str, width: int) -> None:
    page, wrong = opened(browser, pages[name], width)
    assert wrong == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out to the side"
    assert page.title()
    figures = page.locator("svg")
    assert figures.count() > 0
    for index in range(figures.count()):
        box = figures.nth(index).bounding_box()
        assert box is not None, f"figure {index} is not shown"
        assert box["width"] > 50
        assert box["height"] > 20
    page.close()


def test_text_in_figures_can_be_read(browser: Browser, pages: dict[str, Path]) -> None:
    page, _ = opened(browser, pages["analysis"], 1400)
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg text')].filter(t => t.textContent.trim())"
        ".map(t => t.getBoundingClientRect().height)"
    )
    assert len(sizes) > 20
    assert min(sizes) >= 7, "px"
    page.close()


def test_the_heading_comes_first_and_sections_follow(browser: Browser, pages: dict[str, Path]) -> None:
    page, _ = opened(browser, pages["study"], 1400)
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    page.close()
