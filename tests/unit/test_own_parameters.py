"""Parameters that an application defines itself: any key of any file, placeholders, and what compose gives."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from framework.compose.completed import completed
from framework.config.application import load_application
from framework.config.knowledge import resolved
from framework.errors import FileError, InputError, UnknownName
from framework.model import ImageFacts
from framework.report.changes import changes
from framework.testbeds.docker.examination import own_parameters
from framework.use_cases.catalogue import Catalogue
from optimizer.space import Configuration, Value
from tests.own_parameters import (
    CONFIG,
    CORES,
    MEMORY_MIB,
    MOUNTED,
    TEMPLATE,
    TEMPLATED,
    THREADS,
    TYPES,
    load,
    numbers,
    rendered,
    space,
    web,
)

# --------------------------------------------------------------------------- files


def test_a_service_without_a_type_has_parameters_of_its_own(tmp_path: Path) -> None:
    application = load(tmp_path, THREADS, MOUNTED)
    assert application.services[0].type == ""
    assert application.present["web.threads"].value == 8, "the value of the user's file is the default"
    assert application.present["web.threads"].where == "/etc/config.yaml: server.http.threads"
    assert space(application).default() == {"web.threads": 8}
    assert rendered(application).files == {"files/web/etc-config.yaml": CONFIG}
    after = rendered(application, threads=16)
    assert after.files == {"files/web/etc-config.yaml": CONFIG.replace("threads: 8", "threads: 16")}
    assert web(after)["volumes"] == ["./files/web/etc-config.yaml:/etc/config.yaml:ro"]


def test_a_bound_of_the_host_is_resolved(tmp_path: Path) -> None:
    services = "parameters:\n  threads: " + numbers(1, "host.cores * 2", "host.cores", "{environment: T}")
    [parameter] = space(load(tmp_path, services, "services: {web: {image: 'web:1'}}\n")).parameters
    assert (parameter.high, parameter.default) == (CORES * 2, CORES)


def test_an_own_parameter_goes_before_its_type_s(tmp_path: Path) -> None:
    services = "type: memcached\nparameters:\n  memory_mib: " + numbers(8, 16, 8, "{flag: '-m {value}'}")
    application = load(tmp_path, services, "services: {web: {image: 'memcached:1.6', command: memcached -m 8}}\n")
    parameters = {parameter.name: parameter for parameter in space(application).parameters}
    assert parameters["web.memory_mib"].high == 16
    assert len(parameters) > 1, "the others of its type stay"
    assert web(rendered(application, memory_mib=12))["command"] == ["memcached", "-m", "12"]


def test_a_value_with_a_unit_keeps_it(tmp_path: Path) -> None:
    apply = "{file: /etc/config.yaml, key: server.timeout, value: '{value}ms'}"
    application = load(tmp_path, "parameters:\n  timeout: " + numbers(10, 900, 100, apply, ", unit: ms"), MOUNTED)
    assert application.present["web.timeout"].value == 250
    [text] = rendered(application, timeout=500).files.values()
    assert text == CONFIG.replace("250ms", "500ms")


def test_a_value_that_is_not_understood_is_not_overwritten(tmp_path: Path) -> None:
    files = {"config.yaml": "server: {http: {threads: '${THREADS:-8}'}}\n"}
    application = load(tmp_path, THREADS, MOUNTED, files)
    with pytest.raises(InputError, match=r"web: threads cannot be set: what .* is not understood.*threads: default"):
        rendered(application)


def test_a_parameter_without_a_place_is_left_alone_and_said_to_be(tmp_path: Path) -> None:
    application = load(tmp_path, THREADS, MOUNTED, {"config.yaml": "server: 3\n"})
    reason = "/etc/config.yaml has no place for it: the value above http.threads is no mapping"
    assert application.unsettable == {"web.threads": reason}


def test_a_config_of_the_compose_file_is_changed_too(tmp_path: Path) -> None:
    compose = (
        "services: {web: {image: 'web:1', configs: [{source: pool, target: /etc/pool.ini}]}}\n"
        'configs: {pool: {content: "[pool]\\nsize = 4\\ncost = 3$$\\n"}}\n'
    )
    services = "parameters:\n  size: " + numbers(1, 64, 10, "{file: /etc/pool.ini, key: pool.size}")
    application = load(tmp_path, services, compose)
    assert application.present["web.size"].value == 4
    after = rendered(application, size=9)
    assert after.files == {"files/web/etc-pool.ini": "[pool]\nsize = 9\ncost = 3$\n"}
    assert "configs" not in web(after)


def test_a_config_from_elsewhere_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.ini").write_text("[pool]\nsize = 4\n")
    (tmp_path / "app").mkdir()
    compose = (
        "services: {web: {image: 'web:1', configs: [{source: pool, target: /etc/pool.ini}]}}\n"
        "configs: {pool: {file: ../secret.ini}}\n"
    )
    services = "parameters:\n  size: " + numbers(1, 64, 10, "{file: /etc/pool.ini, key: pool.size}")
    assert load(tmp_path / "app", services, compose).present == {}


def test_a_file_is_made_where_that_is_wanted(tmp_path: Path) -> None:
    apply = "{file: /etc/new.json, key: pool.size, create: true}"
    application = load(tmp_path, "parameters:\n  size: " + numbers(1, 64, 10, apply), "services: {web: {image: w}}\n")
    assert rendered(application, size=9).files == {"files/web/etc-new.json": '{"pool": {"size": 9}}\n'}


def test_a_flag_needs_a_command_that_is_known(tmp_path: Path) -> None:
    services = "parameters:\n  n: " + numbers(1, 9, 2, "{flag: '-n {value}'}")
    application = load(tmp_path, services, "services: {web: {image: w}}\n")
    with pytest.raises(InputError, match="what its image runs is not known here; pull the image"):
        rendered(application, n=3)

    class Images:
        def facts(self, image: str) -> ImageFacts:
            return ImageFacts(command=("serve", "-n", "4"))

        def names(self, image: str, directory: str) -> tuple[str, ...]:
            return ()

        def text(self, image: str, path: str) -> None:
            return None

    known = completed(load_application(tmp_path), TYPES, None, Images())
    assert known.present["web.n"].value == 4
    assert web(rendered(known, n=3))["command"] == ["serve", "-n", "3"]


# --------------------------------------------------------------------------- templates


def test_placeholders_have_the_values_of_the_configuration(tmp_path: Path) -> None:
    application = load(tmp_path, TEMPLATED, "services: {web: {image: w}}\n", {"web.tmpl": TEMPLATE})
    deployment = rendered(application, size=9)
    assert deployment.files == {"files/web/etc-web.conf": "# ${HOME}\nsize 9;\n"}
    assert web(deployment)["volumes"] == ["./files/web/etc-web.conf:/etc/web.conf:ro"]
    assert rendered(application).files == {"files/web/etc-web.conf": "# ${HOME}\nsize 10;\n"}


def test_a_template_takes_the_place_of_a_mounted_file(tmp_path: Path) -> None:
    compose = (
        "services: {web: {image: w, volumes: ['./config.yaml:/etc/web.conf', 'data:/data']}}\nvolumes: {data: {}}\n"
    )
    application = load(tmp_path, TEMPLATED, compose, {"web.tmpl": TEMPLATE})
    assert web(rendered(application))["volumes"] == ["./files/web/etc-web.conf:/etc/web.conf", "data:/data"]


def test_parameters_of_a_type_stand_in_placeholders_as_their_server_writes_them(tmp_path: Path) -> None:
    services = "type: nginx\nfixed: {upstream_keepalive: default}\ntemplates: {/etc/x.conf: web.tmpl}"
    compose = "services: {web: {image: 'nginx:1.27', volumes: ['./nginx.conf:/etc/nginx/nginx.conf:ro']}}\n"
    files = {"web.tmpl": "nodelay ${web.tcp_nodelay};\n", "nginx.conf": "events {\n}\nhttp {\n}\n"}
    assert rendered(load(tmp_path, services, compose, files)).files["files/web/etc-x.conf"] == "nodelay on;\n"


def test_an_unknown_placeholder_is_named_with_its_line(tmp_path: Path) -> None:
    files = {"web.tmpl": "size ${web.size};\nmore ${web.sise};\n"}
    with pytest.raises(FileError) as error:
        load(tmp_path, TEMPLATED, "services: {web: {image: w}}\n", files)
    assert "web.tmpl: line 2: found '${web.sise}'" in str(error.value)
    assert "(did you mean 'web.size'?)" in str(error.value)
    assert "$${ stands for a literal ${" in str(error.value)


def test_a_parameter_that_reaches_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"web\.size has no `apply`, and no template has \$\{web\.size\}"):
        load(tmp_path, TEMPLATED, "services: {web: {image: w}}\n", {"web.tmpl": "nothing\n"})


# --------------------------------------------------------------------------- shown


def test_reports_and_doctor_know_them(tmp_path: Path) -> None:
    application = load(tmp_path, THREADS.replace("default", "unit: threads, default"), MOUNTED)
    [change] = changes({"web.threads": 8}, Configuration({"web.threads": 16}), application, TYPES)
    assert change.unit == "threads"
    [finding] = own_parameters([application])
    assert finding.what == "own: web.threads"
    assert finding.found == (
        "tuned by /etc/config.yaml: server.http.threads; 8 in /etc/config.yaml: server.http.threads"
    )


def test_a_fixed_parameter_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="thread"):
        load(tmp_path, THREADS + "\nfixed: {thread: 4}", MOUNTED)


def test_the_guide_s_example_reaches_every_place(tmp_path: Path) -> None:
    """All parameters of the guide, on files and a command as it describes them."""
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "your-own-application.md").read_text()
    [example] = [block for block in re.findall(r"```yaml\n(.*?)```", guide, flags=re.DOTALL) if "parameters:" in block]
    services = "\n".join(line[4:] for line in example.splitlines()[2:])
    compose = "services: {web: {image: w, command: serve, volumes: ['./config.yaml:/etc/web/config.yaml:ro']}}\n"
    files = {
        "config.yaml": "server: {http: {threads: 8}}\nupstreams:\n  - {name: api, timeout: 400ms}\n",
        "cache.conf.tmpl": "size ${web.cache}m\n",
    }
    application = load(tmp_path, services, compose, files)
    default = space(application).default()
    assert (default["web.threads"], default["web.timeout"], default["web.cache"]) == (8, 400, 64)
    changed: dict[str, Value] = {
        "threads": 9, "timeout": 300, "workers": 2, "backlog": 256, "cache": 128, "cpus": 2.0, "memory": 512,
        "replicas": 2,
    }  # fmt: skip
    assert {f"web.{name}" for name in changed} == set(default)
    deployment = rendered(application, **changed)
    assert sorted(deployment.files.values()) == [
        "server: {http: {threads: 9}}\nupstreams:\n  - {name: api, timeout: 300ms}\n",
        "size 128m\n",
    ]
    entry = web(deployment)
    assert entry["command"] == ["serve", "--backlog=256"]
    assert entry["environment"] == {"WEB_WORKERS": "2"}
    assert (entry["cpus"], entry["mem_limit"], entry["scale"]) == ("2", "512m", 2)


def test_the_catalogue_lists_an_application_s_parameters(tmp_path: Path) -> None:
    types = resolved(TYPES, cores=CORES, memory_mib=MEMORY_MIB)
    catalogue = Catalogue(SimpleNamespace(machine=lambda: None, types_on=lambda machine: types))  # type: ignore[arg-type]
    [listed] = catalogue.parameters(load(tmp_path, THREADS, MOUNTED))
    assert listed == {
        "name": "web.threads",
        "kind": "integer",
        "low": 1,
        "high": 64,
        "choices": (),
        "default": 8,
        "unit": "",
        "state": "tuned",
        "from": "/etc/config.yaml: server.http.threads",
        "reaches": "/etc/config.yaml: server.http.threads",
    }
