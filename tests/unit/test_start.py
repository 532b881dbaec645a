"""Commands that only look load no library that they do not use.  How long they take: experiments/bench/start."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from alembic.config import Config
from alembic.script import ScriptDirectory

from framework.bootstrap.storage import storage
from framework.cli.main import COMMANDS, app, command
from framework.config.settings import Settings
from framework.numba_cache import choose_cache
from framework.store.database import MIGRATIONS, newest_version
from framework.testing.examples import begin, study

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from framework.cli.main import main
try:
    main()
finally:
    print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""
HEAVY = {
    "alembic", "docker", "fastapi", "httpx", "hyperopt", "jinja2", "matplotlib", "msgspec", "networkx", "nevergrad",
    "numba", "opentelemetry", "pandas", "psycopg", "pyarrow", "ruamel", "scipy", "skopt", "sklearn", "starlette",
    "uvicorn",
}  # fmt: skip
FOR_A_STUDY = {"numpy", "optimizer", "rich", "sqlalchemy"}
FOR_OPTIONS = {"pydantic"}  # with which typer itself reads the values of options


def loaded(home: Path, *arguments: str) -> tuple[str, set[str]]:
    """Return standard output of a command, and the packages that it loaded."""
    environment = {**os.environ, "TAILOR_HOME": str(home), "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    environment.pop("TAILOR_DATABASE", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]], ids=" ".join)
def test_the_version_and_the_list_of_commands_load_next_to_nothing(tmp_path: Path, arguments: list[str]) -> None:
    said, packages = loaded(tmp_path, *arguments)
    assert "tailor" in said
    assert packages & (HEAVY | FOR_A_STUDY) == set()
    assert packages & FOR_OPTIONS == set() or "--version" in arguments


def test_the_list_of_studies_loads_the_store_alone(tmp_path: Path) -> None:
    kept = storage(Settings(home=tmp_path, database=f"sqlite:///{tmp_path / 'tailor.db'}")).studies
    kept.create(replace(study(), plan=replace(study().plan, application=str(ROOT / "apps" / "social-network"))))
    begin(kept)
    kept.close()
    said, packages = loaded(tmp_path, "studies")
    assert study().id in said
    assert "no value yet" in said
    assert packages & HEAVY == set()
    assert "sqlalchemy" in packages


def test_the_list_of_commands_says_what_each_command_says() -> None:
    listed = typer.main.get_group(app).commands
    assert list(listed) == [name for summaries in COMMANDS.values() for name in summaries]
    for name, shown in listed.items():
        assert shown.get_short_help_str(200) == command(name).get_short_help_str(200)


def test_every_command_is_in_the_list() -> None:
    for module, summaries in COMMANDS.items():
        part = typer.Typer()
        importlib.import_module(f"framework.cli.{module}").register(part)
        assert set(typer.main.get_group(part).commands) == set(summaries)


def test_the_newest_migration_is_told_by_its_files_name() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert newest_version() == ScriptDirectory.from_config(config).get_current_head()


def test_numba_is_imported_where_its_cache_is_chosen_and_nowhere_else() -> None:
    importing = {
        path.relative_to(ROOT / "framework").as_posix()
        for path in (ROOT / "framework").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Import) and any(name.name.split(".")[0] == "numba" for name in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numba")
    }
    assert importing == {"numba_cache.py"}


def test_compiled_code_is_kept_apart_for_each_state_of_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen() -> str:
        monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
        choose_cache(tmp_path)
        return os.environ["NUMBA_CACHE_DIR"]

    numba = sys.modules["numba"]
    monkeypatch.setattr(numba.config, "CACHE_DIR", numba.config.CACHE_DIR)
    (tmp_path / "twin").mkdir()
    (tmp_path / "twin" / "jit.py").write_text("a = 1\n")
    first = chosen()
    assert chosen() == first
    assert first == numba.config.CACHE_DIR, "also where numba was there before"
    (tmp_path / "twin" / "jit.py").write_text("a = 2\n")
    second = chosen()
    assert second != first
    assert not Path(first).exists(), "the old code is of no use"
    choose_cache(ROOT)
    assert os.environ["NUMBA_CACHE_DIR"] == second, "a directory that is named already stays"


def test_an_optimizer_may_import_numba_first() -> None:
    """Then numba has read its environment before the directory is chosen."""
    program = (
        "import numba, framework.critical_path.extract as e; from pathlib import Path; "
        "print(Path(e.children_of.stats.cache_path).parent.name)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("compiled-")
