"""Data are seeded once, kept, and brought back for every repetition, by overlay and by copy."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from framework.errors import TrialFailed
from framework.model import Application, Hook, Hooks
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.owner import Owner
from framework.testbeds.docker.testbed import DockerTestbed
from tests.testbed_documents import TYPES, application, deployment, document, quiet

pytestmark = pytest.mark.docker


@pytest.fixture
def small(tmp_path: Path, project: str) -> Iterator[Application]:
    """An application whose name is the project's, so that its snapshots can be told from others."""
    made = application(project, tmp_path, document())
    yield made
    for volume in snapshots(made):
        Engine().remove_volume(volume, owner(volume))


def owner(volume: str) -> Owner:
    return Owner.data((Engine().volume(volume) or {})["Labels"]["tailor.seed"])


def snapshots(made: Application) -> list[str]:
    return sorted(
        v["Name"] for v in Engine().volumes(f"tailor.application={made.name}") if "tailor.seed" in v["Labels"]
    )


def keys(testbed: DockerTestbed, project: str, made: Application) -> tuple[float, str]:
    """Return the number of keys in a fresh deployment, and how they came there."""
    running = testbed.deploy(replace(deployment(project, document()), application=made.name), quiet)
    testbed.run_hook(running, Hook("change"))  # adds one; the next deployment must not see it
    return testbed.statistics(running)["store"]["keys"] - 1, running.deployment.labels["tailor.restored"]


@pytest.mark.parametrize("overlays", [True, False])
def test_seeded_data_come_back_for_every_repetition(
    tmp_path: Path, project: str, small: Application, overlays: bool
) -> None:
    testbed = DockerTestbed(tmp_path, TYPES, overlays=overlays)
    default = replace(deployment(project, document()), application=small.name)
    testbed.load_dataset(small, default, quiet)
    kept = snapshots(small)
    assert len(kept) == 2, "one volume and the mark that it is complete"
    assert Engine().containers(f"tailor.project={project}") == []
    for _ in range(3):
        assert keys(testbed, project, small) == (2.0, "overlay" if overlays else "copy")

    again = DockerTestbed(tmp_path, TYPES, overlays=overlays)  # as another process would
    steps: list[str] = []
    again.load_dataset(small, default, steps.append)
    assert steps == [], "nothing to do"
    assert keys(again, project, small)[0] == 2.0
    assert snapshots(small) == kept


class WithoutOverlays(Engine):
    """An engine whose kernel cannot mount overlays; here it is asked for a file system that it does not have."""

    def create_volume(
        self, name: str, owner: Owner, labels: Mapping[str, str], options: Mapping[str, str] | None = None
    ) -> None:
        super().create_volume(name, owner, labels, {**options, "type": "nosuchfs"} if options else None)


def test_an_engine_without_overlays_gets_copies(tmp_path: Path, project: str, small: Application) -> None:
    default = replace(deployment(project, document()), application=small.name)
    testbed = DockerTestbed(tmp_path, TYPES, engine=WithoutOverlays())
    testbed.load_dataset(small, default, quiet)
    for _ in range(2):
        assert keys(testbed, project, small) == (2.0, "copy")


def test_overlays_and_copies_replace_each_other(tmp_path: Path, project: str, small: Application) -> None:
    default = replace(deployment(project, document()), application=small.name)
    overlaid, copied = (DockerTestbed(tmp_path, TYPES, overlays=overlays) for overlays in (True, False))
    for testbed, method in ((overlaid, "overlay"), (copied, "copy"), (overlaid, "overlay")):
        testbed.load_dataset(small, default, quiet)
        assert keys(testbed, project, small) == (2.0, method)


def test_a_seed_that_was_cut_off_is_made_anew(tmp_path: Path, project: str, small: Application) -> None:
    default = replace(deployment(project, document()), application=small.name)
    testbed = DockerTestbed(tmp_path, TYPES)
    testbed.load_dataset(small, default, quiet)
    marker = next(name for name in snapshots(small) if not name.endswith("-data"))
    Engine().remove_volume(marker, owner(marker))  # what a process leaves that is killed before the data are complete
    subprocess.run(
        ["docker", "run", "--rm", "-v", f"{marker}-data:/d", "--entrypoint", "sh", "redis:7.0", "-c", "rm -rf /d/*"],
        check=True, capture_output=True,
    )  # fmt: skip
    after = DockerTestbed(tmp_path, TYPES)
    after.load_dataset(small, default, quiet)
    assert marker in snapshots(small)
    assert keys(after, project, small)[0] == 2.0


def test_a_seed_hook_that_fails_keeps_nothing(tmp_path: Path, project: str, small: Application) -> None:
    failing = replace(small, hooks=Hooks(seed=Hook("fail", ("echo no data; exit 1",))))
    default = replace(deployment(project, document()), application=small.name)
    with pytest.raises(TrialFailed, match=r"(?s)ended with 1.*no data"):
        DockerTestbed(tmp_path, TYPES).load_dataset(failing, default, quiet)
    assert snapshots(small) == []
    assert Engine().containers(f"tailor.project={project}") == []


def test_other_content_is_other_data(tmp_path: Path, project: str, small: Application) -> None:
    default = replace(deployment(project, document()), application=small.name)
    testbed = DockerTestbed(tmp_path, TYPES)
    testbed.load_dataset(small, default, quiet)
    testbed.load_dataset(
        replace(small, content_hash="another", hooks=Hooks(seed=Hook("seed", ("set", "only", "1")))), default, quiet
    )
    assert len(snapshots(small)) == 4
    assert keys(testbed, project, small)[0] == 1.0
    testbed.load_dataset(small, default, quiet)
    assert keys(testbed, project, small)[0] == 2.0


def test_cleaning_keeps_the_data_and_removing_them_spares_those_in_use(
    tmp_path: Path, project: str, small: Application
) -> None:
    default = replace(deployment(project, document()), application=small.name)
    testbed = DockerTestbed(tmp_path, TYPES)
    testbed.load_dataset(small, default, quiet)
    kept = snapshots(small)
    keys(testbed, project, small)
    assert testbed.clean_datasets(application=small.name) == [], "a deployment lies over them"
    assert snapshots(small) == kept
    testbed.clean(project)
    assert snapshots(small) == kept
    assert sorted(testbed.clean_datasets(application=small.name)) == kept
    assert snapshots(small) == []
