"""The data that repetitions start from: where they come from, what names them, what is said of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.compose.checking import Copied
from framework.compose.gate import CLOSED, Gate
from framework.config.application import load_application
from framework.errors import DeploymentFailed, InputError
from framework.model import Application, DatasetSource, Hook, Hooks, Workload
from framework.testbeds.docker.dataset_notes import dataset_notes, volume_names
from framework.testbeds.docker.datasets import start_identity
from framework.testbeds.docker.document import Wanted
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.layers import directories
from framework.testbeds.docker.listed import Listed
from framework.testbeds.docker.named_volumes import mounted_at, names_of, with_named_volumes
from framework.testbeds.docker.running_stack import copied_data
from framework.testbeds.docker.volumes import Dataset, DatasetFacts, images_of
from tests.testbed_documents import application, deployment, document, wanted_of

SMALL = Path(__file__).parents[1] / "cases" / "good" / "small"
DECLARED = {"postgres:15": ("/var/lib/postgresql/data",), "redis:7.0": ("/data", "/tmp/sockets")}


def declared(image: str) -> Sequence[str]:
    return DECLARED.get(image, ())


def small(tmp_path: Path, dataset: str, **services: Any) -> Application:
    """Load an application whose file says ``dataset``, with more services and a volume in its compose file."""
    directory = tmp_path / "small"
    shutil.copytree(SMALL, directory)
    with (directory / "application.yaml").open("a") as file:
        file.write(dataset)
    compose = {
        "services": {"front": {"image": "nginx:1.22"}, "cache": {"image": "memcached:1.6"}, "jaeger": {"image": "j"}}
        | services,
        "volumes": {"data": {}},
    }
    (directory / "compose.yaml").write_text(json.dumps(compose))
    return load_application(directory)


# ---------------------------------------------------------------------- where the data come from


def test_the_first_start_is_the_source_unless_a_hook_or_the_file_names_another(tmp_path: Path) -> None:
    without = application("a", tmp_path, document(), seed=False)
    assert without.data_source == DatasetSource("first-start")
    assert application("a", tmp_path, document()).data_source is None, "the seed hook makes the data, as ever"
    assert replace(without, dataset=DatasetSource("empty")).data_source == DatasetSource("empty")


def test_the_keys_of_the_file(tmp_path: Path) -> None:
    loaded = small(tmp_path, "dataset: {from: running, project: shop, volumes: [data, 'cache:/data'], timeout_s: 30}\n")
    assert loaded.dataset == DatasetSource("running", "shop", ("data", "cache:/data"), timeout_s=30.0)


def test_directories_start_from_the_application_and_are_no_part_of_it(tmp_path: Path) -> None:
    loaded = small(tmp_path, "dataset: {from: directory, directories: {data: backup}}\n")
    backup = tmp_path / "small" / "backup"
    assert loaded.dataset == DatasetSource("directory", directories={"data": backup})
    backup.mkdir()
    before = load_application(loaded.directory).content_hash
    (backup / "file").write_text("1")
    assert load_application(loaded.directory).content_hash == before


def test_a_stack_s_data_and_directories_elsewhere_need_the_operator(tmp_path: Path) -> None:
    stack = replace(application("shop", tmp_path, document(), seed=False), dataset=DatasetSource("running", "live"))
    [refusal] = CLOSED.admitted(stack).refused
    assert refusal.place == "dataset.project: live"
    assert "TAILOR_ALLOW='shop:dataset.project: live'" in str(refusal)
    with pytest.raises(InputError, match=r"dataset\.project: live"):
        CLOSED.application(stack)
    assert Gate(("shop:dataset.project: live",)).application(stack).refused == ()

    own, outside, gone = tmp_path / "own" / "dump", tmp_path / "outside", tmp_path / "own" / "gone"
    for path in (own, outside):
        path.mkdir(parents=True)
    for path, why in ((own, ""), (outside, "outside of the application's"), (gone, "there is no such directory")):
        source = DatasetSource("directory", directories={"data": path})
        asked = replace(stack, directory=tmp_path / "own", dataset=source)
        refused = CLOSED.admitted(asked).refused
        assert [why in refusal.why for refusal in refused] == ([True] if why else [])
    assert CLOSED.admitted(application("shop", tmp_path, document())).refused == (), "the seed hook's"


# ---------------------------------------------------------------------- volumes without a name


def test_every_volume_gets_a_name_and_what_has_one_keeps_it() -> None:
    source: dict[str, Any] = {
        "services": {
            "db": {"image": "postgres:15"},
            "store": {"image": "redis:7.0", "volumes": [{"type": "volume", "source": "data", "target": "/data/"}]},
            "cache": {"image": "redis:7.0", "tmpfs": ["/data:size=10m"]},
            "app": {
                "image": "app",
                "volumes": [
                    {"type": "volume", "target": "/app/files"},
                    {"type": "bind", "source": "/x", "target": "/y"},
                ],
            },
            "many": {"image": "postgres:15", "deploy": {"replicas": 2}},
            "shares": {"image": "postgres:15", "volumes_from": ["db"]},
            "seed": {"image": "postgres:15", "profiles": ["tailor"]},
        },
        "volumes": {"data": {}},
    }
    named = with_named_volumes(source, declared)
    places = mounted_at(named)
    names = {names_of(key, mounts)[0] for key, mounts in places.items()}
    assert names == {"data", "db:/var/lib/postgresql/data", "app:/app/files"}
    assert places["data"] == (("store", "/data"),), "the image's own path is mounted already"
    for untouched in ("cache", "many", "shares", "seed"):
        assert named["services"][untouched] == source["services"][untouched]
    assert with_named_volumes(named, declared) == named


MOUNTS = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("volume"), "target": st.sampled_from(["/a", "/b", "/c/d", "/tmp/e"])},
        optional={"source": st.sampled_from(["data", "more"])},
    ),
    max_size=3,
    unique_by=lambda mount: mount["target"],
)


@given(
    mounts=st.dictionaries(st.sampled_from(["web", "db", "app"]), MOUNTS, min_size=1),
    paths=st.lists(st.sampled_from(["/a", "/b", "/e", "/run/x"]), unique=True),
)
def test_naming_loses_no_mount_and_changes_no_name(mounts: Mapping[str, Any], paths: list[str]) -> None:
    services = {name: {"image": "i", "volumes": entries} for name, entries in mounts.items()}
    source = {"services": services, "volumes": {"data": {}, "more": {}}}
    named = with_named_volumes(source, lambda _: paths)
    for name, entries in mounts.items():
        after = {mount["target"]: mount["source"] for mount in named["services"][name].get("volumes", [])}
        assert after.keys() == {mount["target"] for mount in entries} | {p for p in paths if not p.startswith("/run")}
        assert all(after[mount["target"]] == mount["source"] for mount in entries if "source" in mount)
        assert set(after.values()) <= named["volumes"].keys()
    own = [mount["source"] for body in named["services"].values() for mount in body.get("volumes", [])]
    anonymous = [key for key in own if key.startswith("anonymous-")]
    assert len(set(anonymous)) == len(anonymous), "no two share one"


# ---------------------------------------------------------------------- a running stack


PG = "/var/lib/postgresql/data"


class Stack(Engine):
    """An engine on which the stack ``live`` runs: a volume without a name, a directory, and one of a job that ended."""

    def containers(self, label: str | None = None) -> list[Listed]:
        labels = {"com.docker.compose.project": "live"}
        listed = {"db": {}, "web": {}, "job": {"com.docker.compose.oneoff": "True"}}
        return [
            Listed(name, name, "running", "Up", "i", {**labels, "com.docker.compose.service": name, **more}, {})
            for name, more in listed.items()
            if label == "com.docker.compose.project=live"
        ]

    def inspect(self, container: str) -> Mapping[str, Any] | None:
        mounts = {
            "db": [{"Type": "volume", "Name": "0a1b", "Destination": PG}],
            "web": [{"Type": "bind", "Source": "/srv/files", "Destination": "/files/"},
                    {"Type": "tmpfs", "Destination": "/x"}],
        }  # fmt: skip
        return {"Mounts": mounts[container]}

    def volumes(self, label: str) -> list[Mapping[str, Any]]:
        return [{"Name": "live_queue", "Labels": {"com.docker.compose.volume": "queue"}}]


STACK_DOCUMENT: dict[str, Any] = {
    "services": {
        "db": {"image": "postgres:15", "volumes": [{"type": "volume", "source": "pg", "target": PG}]},
        "web": {"image": "w", "volumes": [{"type": "volume", "source": "copies-1", "target": "/files"}]},
        "jobs": {"image": "j", "volumes": [{"type": "volume", "source": "queue", "target": "/q"}]},
    },
    "volumes": {"pg": {}, "copies-1": {}, "queue": {}, "unused": {}},
}  # fmt: skip


def test_a_running_stack_s_volumes_are_those_at_the_same_place() -> None:
    everything = copied_data(Stack(), DatasetSource("running", "live"), STACK_DOCUMENT)
    assert everything == {
        "pg": Copied(volume="0a1b"), "copies-1": Copied(path="/srv/files"), "queue": Copied(volume="live_queue"),
    }  # fmt: skip
    chosen = DatasetSource("running", "live", ("web:/files", "pg"))
    assert copied_data(Stack(), chosen, STACK_DOCUMENT).keys() == {"copies-1", "pg"}


def test_a_stack_without_such_a_volume_says_what_there_is() -> None:
    with pytest.raises(DeploymentFailed, match=r"no container of the compose project gone"):
        copied_data(Stack(), DatasetSource("running", "gone"), STACK_DOCUMENT)
    more = {**STACK_DOCUMENT, "volumes": {**STACK_DOCUMENT["volumes"], "new": {}}}
    more["services"] = {**more["services"], "n": {"volumes": [{"type": "volume", "source": "new", "target": "/n"}]}}
    with pytest.raises(DeploymentFailed, match=r"has no volume for new; name those that it has in dataset.volumes"):
        copied_data(Stack(), DatasetSource("running", "live"), more)
    with pytest.raises(InputError, match=r"found 'web:/other'; allowed: the volumes .*web:/files"):
        copied_data(Stack(), DatasetSource("running", "live", ("web:/other",)), STACK_DOCUMENT)


def test_directories_by_name_and_by_place(tmp_path: Path) -> None:
    source = DatasetSource("directory", directories={"pg": tmp_path, "web:/files": tmp_path / "f"})
    copied = copied_data(Stack(), source, STACK_DOCUMENT)
    assert copied == {"pg": Copied(path=str(tmp_path)), "copies-1": Copied(path=str(tmp_path / "f"))}


# ---------------------------------------------------------------------- the name of kept data


def start_of(made: Application, want: Wanted, images: Mapping[str, str], project: str = "p") -> str:
    return start_identity(made, want, images, project)


def test_kept_data_are_named_by_what_makes_them(tmp_path: Path) -> None:
    (tmp_path / "init.sql").write_text("1")
    source = document()
    source["services"]["store"]["volumes"] = ["data:/data", f"{tmp_path}/init.sql:/init.sql:ro"]
    made = application("a", tmp_path, source, seed=False)

    def want(project: str = "p", trial: int = 1, **changes: Any) -> Wanted:
        wanted = {**source, "services": {**source["services"], **changes}}
        return wanted_of(replace(deployment(project, wanted, trial=trial), roots=(tmp_path,)))

    images = {"store": "sha256:1", "cache": "sha256:2"}
    first = start_of(made, want(), images)
    workload = replace(made, content_hash="other", workload=Workload(9.0, "constant", "http://web", {}))
    assert start_of(workload, want("q", trial=7), images, "q") == first, "the data do not depend on the load"
    others = [
        start_of(made, want(), {**images, "cache": "sha256:3"}),
        start_of(made, want(cache={"image": "memcached:1.6", "command": "memcached -m 1"}), images),
        start_of(replace(made, dataset=DatasetSource("running", "live")), want(), images),
        start_of(replace(made, dataset=DatasetSource("running", "live")), want(), images, "q"),
    ]
    prepared = replace(made, hooks=Hooks(prepare=Hook("seed")))
    assert start_of(prepared, want(), images) == first
    others.append(start_of(replace(prepared, dataset=DatasetSource(prepared=True)), want(), images))
    (tmp_path / "init.sql").write_text("2")
    others.append(start_of(made, want(), images))
    assert len({first, *others}) == 1 + len(others)


def test_data_of_an_image_without_a_shell_are_copied_with_another(tmp_path: Path) -> None:
    source = document()
    source["services"]["store"]["volumes"] = ["data:/data"]
    want = wanted_of(replace(deployment("p", source), roots=(tmp_path,)))
    images = images_of(want, want.volumes)
    assert images[0] == want.images["store"]
    assert sorted(images) == sorted(set(want.images.values()))
    assert len(images) > 1


# ---------------------------------------------------------------------- what is said


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (DatasetFacts(), "2 volumes"),
        (DatasetFacts(217_088, 0.41, "overlay"), "212 MiB in 2 volumes, restored in 0.4 s (overlay)"),
        (DatasetFacts(2 << 20, 3.0, "copy", 95.04, 3.1),
         "2.0 GiB in 2 volumes, restored in 3.0 s (copy); ready after 3.1 s instead of 95.0 s"),
        (DatasetFacts(12), "12 KiB in 2 volumes"),
    ],
)  # fmt: skip
def test_a_dataset_says_its_size_and_time(facts: DatasetFacts, text: str) -> None:
    assert str(Dataset("x", {"a": "1", "b": "2"}, facts)) == text


def test_notes_before_and_after_the_data_are_there(tmp_path: Path) -> None:
    made = application("a", tmp_path, document(), seed=False)
    names = volume_names(made, with_named_volumes(CLOSED.admitted(made).document, declared))
    assert names == ("data",)
    [before] = dataset_notes(made, names, None, {})
    assert before == "data: every repetition starts from data as the first healthy start leaves them"
    kept = Dataset("x", {"data": "1"}, DatasetFacts(5, 0.1, "copy", not_kept=("db:/srv/app",)))
    assert dataset_notes(made, names, kept, {})[1:] == [
        "dataset: 5 KiB in 1 volume, restored in 0.1 s (copy)",
        "not restored: db:/srv/app (in no volume, so every repetition has what the image has there)",
    ]
    [unusable] = dataset_notes(made, names, None, {"a": "db: exited with 1"})
    assert "start anew in every repetition" in unusable
    assert unusable.endswith("db: exited with 1")
    [running] = dataset_notes(replace(made, dataset=DatasetSource("running", "live")), names, None, {})
    assert "the running stack live, which is only read and goes on" in running
    assert volume_names(application("a", tmp_path, document()), {"services": {}, "volumes": {"x": {}}}) == ()


# ---------------------------------------------------------------------- what is in no volume


def test_directories_of_files_outside_of_volumes() -> None:
    added, modified, removed = 1, 0, 2
    changes = [
        ("/var", modified), ("/var/lib", modified), ("/var/lib/app", added), ("/var/lib/app/db", added),
        ("/var/lib/app/db/1", added), ("/var/lib/app/index", added),  # a directory of its own
        ("/opt", modified), ("/opt/state.json", modified), ("/srv/gone", removed),
        ("/data", added), ("/var/lib/pg", added), ("/var/lib/pg/1", added),  # mount points
        ("/run", modified), ("/run/app.pid", added), ("/tmp", modified), ("/tmp/x", added), ("/etc/hosts", modified),
    ]  # fmt: skip
    assert directories(changes, ["/data", "/var/lib/pg"]) == ["/opt", "/var/lib/app"]
    assert directories([], []) == []
    many = [(f"/d{number}/file", added) for number in range(9)]
    assert len(directories(many, [])) == 5
