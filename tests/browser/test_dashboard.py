"""The dashboard in a real browser: launch on the twin, watch to the end, and read what the API says."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from framework.model import DEFAULT_OPTIMIZER
from tests.serving import PATIENCE_S, Here, serving

pytestmark = pytest.mark.browser
expect.set_options(timeout=1000 * PATIENCE_S)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    with serving(tmp_path, monkeypatch) as served:
        working = threading.Thread(target=served.kept.worker.run)
        working.start()
        yield served
        served.kept.worker.leave()
        working.join(30)


def page_of(browser: Browser, here: Here, width: int = 1200, **options: object) -> tuple[Page, list[str]]:
    """Return a page, and its errors and requests to other hosts."""
    where: Any = {"viewport": {"width": width, "height": 900}, "base_url": str(here.client.base_url), **options}
    context = browser.new_context(**where)
    context.set_default_timeout(1000 * PATIENCE_S)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request",
        lambda request: wrong.append(request.url) if not request.url.startswith(str(here.client.base_url)) else None,
    )
    return page, wrong


def test_launch_watch_read_compare(browser: Browser, here: Here) -> None:
    page, wrong = page_of(browser, here)
    page.goto("/")
    page.get_by_role("link", name="Launch one").click()
    asked = {"iterations": "3", "repetitions": "2", "window_s": "4", "pairs": "6", "rate_rps": "200"}
    for name, value in asked.items():
        page.locator(f"input[name={name}]").fill(value)
    page.locator("select[name=testbed]").select_option("twin")
    page.get_by_role("button", name="launch", exact=True).click()
    page.wait_for_url(re.compile("/studies/"))
    study = page.url.rsplit("/", 1)[-1]
    expect(page.locator("#state")).to_have_text("completed")
    told = here.get(f"/studies/{study}")
    expect(page.locator(".headline").first).to_have_text(told["headline"])
    numbers = page.locator(".big").all_inner_texts()
    assert numbers[0] == f"{told['default']['value']:.2f} ms"
    assert numbers[1] == f"{told['best']['value']:.2f} ms"
    assert page.get_by_text("Modelled, not measured").count() > 0
    rows = page.locator("[data-trials] tr[data-purpose]")
    page.locator("select[name=trial-purpose]").select_option("verdict")
    expect(rows.locator("visible=true")).to_have_count(12)
    page.locator("select[name=trial-purpose]").select_option("")
    expect(rows.locator("visible=true")).to_have_count(told["trials"]["completed"])
    page.goto(f"/compare?first={study}:default&second={study}")
    expect(page.get_by_text("Where the time of requests goes")).to_be_visible()
    page.goto("/optimizers")
    expect(page.get_by_role("cell", name=f"{DEFAULT_OPTIMIZER} (modelled)")).to_be_visible()
    page.goto("/")
    expect(page.get_by_role("link", name=study)).to_be_visible()
    assert page.get_by_role("cell", name="modelled").count() == 1
    assert wrong == []


def test_a_plan_is_made_and_shown(browser: Browser, here: Here) -> None:
    asked = {"name": "a store", "reads": "1M/s 2M/s 3M/s", "stored": "100GB", "record": "1KiB", "per_year": "50%",
             "points": "16:1000000", "region": "eu-west-1"}  # fmt: skip
    page, wrong = page_of(browser, here)
    page.goto("/plans")
    for name, value in asked.items():
        page.locator(f"input[name={name}]").fill(value)
    page.get_by_role("button", name="plan", exact=True).click()
    page.wait_for_url(re.compile("/plans/2"))
    made = here.get(f"/plans/{page.url.rsplit('/', 1)[-1]}")
    expect(page.get_by_role("heading", name="a store")).to_be_visible()
    expect(page.locator(".headline")).to_contain_text(made["plans"]["plans"][0]["machine"]["name"])
    assert made["plans"]["need"]["reads"] == {"low": 1e6, "likely": 2e6, "high": 3e6}
    assert made["plans"]["need"]["years"] == 5
    assert page.locator("svg").count() >= 5
    assert wrong == []
    page.goto("/plans")
    expect(page.get_by_role("cell", name="a store")).to_be_visible()
    for name, value in {**asked, "stored": "100"}.items():
        page.locator(f"input[name={name}]").fill(value)
    page.get_by_role("button", name="plan", exact=True).click()
    expect(page.locator("#said")).to_contain_text("need.stored: found 100")


def test_two_clicks_launch_one_study(browser: Browser, here: Here) -> None:
    page, _ = page_of(browser, here)
    page.goto("/launch")
    page.locator("select[name=testbed]").select_option("twin")
    twice = "for (const _ of [1, 2]) document.getElementById('launch').requestSubmit()"
    with page.expect_response(re.compile("/v1/studies$")), page.expect_response(re.compile("/v1/studies$")):
        page.evaluate(twice)
    expect(page).to_have_url(re.compile("/studies/"))  # each answer navigates there, and the second aborts the first
    assert len(here.get("/studies")["items"]) == 1
    page, _ = page_of(browser, here)
    page.goto("/launch")
    page.locator("input[name=rate_rps]").fill("0.5")
    page.locator("form#launch").evaluate("(form) => { form.noValidate = true; form.requestSubmit(); }")
    expect(page.locator("#said")).to_contain_text("rate_rps")
    expect(page.get_by_role("button", name="launch", exact=True)).to_be_enabled()
    page.locator("input[name=rate_rps]").fill("200")
    page.get_by_role("button", name="launch", exact=True).click()
    page.wait_for_url(re.compile("/studies/"))
    assert len(here.get("/studies")["items"]) == 2, "what was refused used up no key"


def test_stop_and_resume(browser: Browser, here: Here) -> None:
    study = here.launch(iterations=500)  # more than it can do before it is stopped, however slow the browser is
    page, wrong = page_of(browser, here)
    page.goto(f"/studies/{study}")
    expect(page.locator("#phase")).to_have_text(re.compile("trial"))
    page.get_by_role("button", name="stop now").click()
    expect(page.locator("#state")).to_have_text("paused")
    page.get_by_role("button", name="resume").click()
    expect(page.locator("#state")).to_have_text("running")
    page.get_by_role("button", name="stop now").click()
    expect(page.locator("#state")).to_have_text("paused")
    assert wrong == []


@pytest.mark.parametrize("path", ["/", "/launch", "/compare", "/optimizers"])
def test_on_a_phone_in_the_dark_by_keyboard(browser: Browser, here: Here, path: str) -> None:
    page, wrong = page_of(browser, here, 380, color_scheme="dark")
    page.goto(path)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "nothing sticks out"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in re.findall(r"\d+", ground)[:3]) < 200
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "to the content"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "/"
    assert wrong == []
