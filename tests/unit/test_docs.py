"""The documentation is true: commands and optimizers appear, files it names exist, examples are the files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from ruamel.yaml import YAML

from framework.cli.main import app
from framework.report import optimizer_pages
from optimizer import registry

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "experiments").glob("*/README.md")),
]


def commands() -> set[str]:
    group = typer.main.get_command(app)
    return set(getattr(group, "commands"))  # noqa: B009  # click's Group, which typer does not export


def test_every_command_is_in_the_readme_or_the_changelog() -> None:
    text = README + (ROOT / "CHANGELOG.md").read_text()
    assert {name for name in commands() if f"tailor {name}" not in text and f"`{name}`" not in text} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_tailor_command_that_a_page_shows_exists(page: Path) -> None:
    shown = set(re.findall(r"(?:^|`|bin/)tailor ([a-z]+)", page.read_text(), flags=re.MULTILINE))
    assert shown <= commands()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_make_target_that_the_readme_shows_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    shown = set(re.findall(r"make ([a-z-]+)", README))
    assert {target for target in shown if not re.search(rf"^{target}:", makefile, flags=re.MULTILINE)} == set()


def test_every_optimizer_is_named_in_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text().lower()
    aliases = {"random": "random search"}
    assert {name for name in registry.names() if aliases.get(name, name) not in text} == set()


def test_the_application_guide_shows_the_application_that_ci_tunes() -> None:
    guide = (ROOT / "docs" / "guides" / "add-an-application.md").read_text()
    [example] = re.findall(r"```yaml\n(.*?)```", guide, flags=re.DOTALL)
    real = (ROOT / "apps" / "url-shortener" / "application.yaml").read_text()
    yaml = YAML(typ="safe")
    assert yaml.load(example) == yaml.load(real)


def test_every_optimizer_has_a_page_that_says_what_its_class_says() -> None:
    written = {path.name: path.read_text() for path in optimizer_pages.DIRECTORY.glob("*.md")}
    assert written.pop(optimizer_pages.COMPARISON)
    assert written == optimizer_pages.pages(), "python -m framework.report.optimizer_pages writes them"


def test_every_row_of_the_threat_model_has_a_test_that_exists() -> None:
    """A row names ``file.py::test`` below tests/; ``::test`` alone means the file named before it."""
    rows = [line for line in (ROOT / "docs" / "threat-model.md").read_text().splitlines() if line.startswith("| ")]
    assert len(rows) > 30
    for row in rows:
        *_, tested, _ = row.split("|")
        if tested.strip() in ("tested", "---"):
            continue
        named = re.findall(r"`([^`]*)`", tested)
        assert named, row
        file = ""
        for name in named:
            before, colons, test = name.partition("::")
            file = before or file
            path = ROOT / "tests" / file
            assert path.is_file(), f"{name}: {row}"
            assert not colons or f"def {test}(" in path.read_text(), f"{name}: {row}"
