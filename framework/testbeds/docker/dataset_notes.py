"""Sentences on the data that repetitions start from, for the notes of a study and the lines of ``tailor doctor``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from framework.errors import DeploymentFailed, InputError, TestbedUnavailable
from framework.model import Application, DatasetSource, Finding
from framework.testbeds.docker.datasets import Datasets
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.named_volumes import mounted_at, names_of
from framework.testbeds.docker.running_stack import copied_data
from framework.testbeds.docker.volumes import Dataset

REMEDY = "see `dataset` in application.yaml"


def volume_names(application: Application, document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the volumes that are kept and restored; none where a seed hook makes the data, or nothing is.

    ``document``: the application's, with a name for every volume.
    """
    source = application.data_source
    if source is None or source.kind == "empty":
        return ()
    return tuple(names_of(key, places)[0] for key, places in mounted_at(document).items())


def dataset_notes(
    application: Application, volumes: Sequence[str], dataset: Dataset | None, unusable: Mapping[str, str]
) -> list[str]:
    """Say what repetitions start from: before the data are there, and with their size and time when they are.

    ``unusable``: application -> why the data of its first start are not kept.
    """
    source = application.data_source
    if source is None or not volumes:
        return []
    if reason := unusable.get(application.name):
        return [f"data: the volumes {', '.join(volumes)} start anew in every repetition, since what the first start "
                f"wrote cannot be used again: {reason}"]  # fmt: skip
    notes = [_planned(source, volumes)]
    if dataset is not None:
        notes += [f"dataset: {dataset}", *_not_kept(dataset)]
    return notes


def datasets_of(
    engine: Engine,
    datasets: Datasets,
    applications: Sequence[Application],
    documents: Mapping[str, Callable[[], Mapping[str, Any]]],
) -> Iterator[Finding]:
    """Yield what the repetitions of these applications start from, and what is kept of it already.

    ``documents``: application -> its document with a name for every volume, which needs the engine.
    """
    for application in applications:
        source = application.data_source
        what = f"{application.name}: dataset"
        try:
            document = documents[application.name]()
            volumes = volume_names(application, document)
            if source is None or not volumes:
                continue
            copied = copied_data(engine, source, document)
            kept = datasets.newest(application.name)
        except TestbedUnavailable:
            return
        except (DeploymentFailed, InputError) as error:
            yield Finding(what, "missing", str(error), REMEDY, needed=True)
            continue
        listed = f": copies of {', '.join(dict.fromkeys(map(str, copied.values())))}" if copied else ""
        state = f"kept: {kept}" if kept is not None else "made by the first study"
        yield Finding(what, "limited" if source.project else "ok", f"{_planned(source, volumes)}{listed}; {state}")
        for note in _not_kept(kept) if kept is not None else ():
            yield Finding(what, "limited", note, "mount a volume there to have it restored")


def _planned(source: DatasetSource, volumes: Sequence[str]) -> str:
    start = f"data: every repetition starts from {', '.join(volumes)} as the first healthy start leaves them"
    if source.kind == "running":
        return (f"{start}, on copies of the volumes of the running stack {source.project}, which is only read and goes "
                "on; a database that writes meanwhile may be copied in a damaged state")  # fmt: skip
    return f"{start}, on copies of directories" if source.kind == "directory" else start


def _not_kept(dataset: Dataset) -> list[str]:
    paths = ", ".join(dataset.facts.not_kept)
    return [f"not restored: {paths} (in no volume, so every repetition has what the image has there)"] if paths else []
