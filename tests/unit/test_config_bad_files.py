"""Each file of tests/cases/bad is refused with the message that its second line promises."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from framework.config.application import load_application
from framework.config.configuration_file import load_configuration
from framework.config.jobs_file import load_jobs
from framework.config.knowledge import load_service_type, load_service_types
from framework.config.load_profile_file import read_load_profile
from framework.config.space import search_space
from framework.errors import FileError

CASES = Path(__file__).parents[1] / "cases"
BAD = sorted((CASES / "bad").glob("*/*.yaml"))


def load_as(kind: str, case: Path, directory: Path) -> Path:
    """Load the case as a file of its kind, in an application that is otherwise good; return the file's path."""
    shutil.copytree(CASES / "good" / "small", directory, dirs_exist_ok=True)
    name = {"service-type": "cachet.yaml"}.get(kind, f"{kind}.yaml")
    path = directory / name
    shutil.copy(case, path)
    if kind == "service-type":
        load_service_type(path)
    elif kind == "jobs":
        load_jobs(path)
    elif kind == "load-profile":
        read_load_profile(path)
    elif kind == "configuration":
        application = load_application(CASES / "good" / "small")
        load_configuration(path, search_space(application, load_service_types(), cores=2, memory_mib=4096))
    else:
        load_application(directory)
    return path


@pytest.mark.parametrize("case", BAD, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_bad_file_is_refused_with_its_place(case: Path, tmp_path: Path) -> None:
    why, says = case.read_text().splitlines()[:2]
    assert why.startswith("# why: ")
    assert says.startswith("# says: ")
    with pytest.raises(FileError) as caught:
        load_as(case.parent.name, case, tmp_path)
    message = str(caught.value)
    assert says.removeprefix("# says: ") in message
    assert message.startswith(str(tmp_path)), "the file is named"
    assert re.search(r": found .+; allowed: .+", message), "what was found and what is allowed is said"
    assert "\n" not in message


def test_there_are_at_least_thirty_bad_applications() -> None:
    assert len([case for case in BAD if case.parent.name == "application"]) >= 30


@pytest.mark.parametrize("kind", ["application", "compose", "workload"])
def test_the_good_file_that_the_bad_ones_vary_is_good(kind: str, tmp_path: Path) -> None:
    load_as(kind, CASES / "good" / "small" / f"{kind}.yaml", tmp_path)
