"""Parameters that an application defines itself: any key of any file, placeholders, and what compose gives."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framework.compose import render
from framework.compose.completed import completed
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.space import search_space
from framework.errors import FileError, InputError, ParameterNotApplied, UnknownName
from framework.model import Application, Container, Deployment, ImageFacts
from framework.report.changes import changes
from framework.testbeds.docker.examination import own_parameters
from framework.testbeds.docker.read_back import read_back
from framework.use_cases.catalogue import Catalogue
from optimizer.space import Configuration, SearchSpace, Value

TYPES = load_service_types()
CORES, MEMORY_MIB = 4, 4096
WORKLOAD = "kind: workload\nversion: 1\ntimeout_ms: 1000\nrequests: [{name: root, weight: 1, path: /}]\n"
APPLICATION = """\
kind: application
version: 1
name: own
services:
{services}
workload: {{file: workload.yaml, rate_rps: 5, target: "http://web:80"}}
"""
CONFIG = "# of the team\nserver:\n  http: {threads: 8}  # of the pool\n  timeout: 250ms\n"


def numbers(low: int, high: object, default: object, apply: str = "", more: str = "") -> str:
    applied = f", apply: {apply}" if apply else ""
    return f"{{kind: integer, low: {low}, high: {high}, default: {default}{more}{applied}}}"


def load(directory: Path, services: str, compose: str, files: Mapping[str, str] | None = None) -> Application:
    """Write an application and read it as the program does; ``services``, ``compose``: of the service web."""
    for name, text in {"workload.yaml": WORKLOAD, "config.yaml": CONFIG, **(files or {})}.items():
        (directory / name).write_text(text)
    lines = "\n".join(f"    {line}" for line in services.splitlines())
    (directory / "application.yaml").write_text(APPLICATION.format(services=f"  web:\n{lines}"))
    (directory / "compose.yaml").write_text(compose)
    return completed(load_application(directory), TYPES, None, None)


def space(application: Application) -> SearchSpace:
    return search_space(application, TYPES, cores=CORES, memory_mib=MEMORY_MIB)


def rendered(application: Application, **changed: Value) -> Deployment:
    types = resolved(TYPES, cores=CORES, memory_mib=MEMORY_MIB)
    values = {f"web.{name}": value for name, value in changed.items()}
    return render(application, types, Configuration({**space(application).default(), **values}), project="p", labels={})


def web(deployment: Deployment) -> Mapping[str, Any]:
    entry: Mapping[str, Any] = deployment.documents["local"]["services"]["web"]
    return entry


# --------------------------------------------------------------------------- files

THREADS = "parameters:\n  threads: " + numbers(
    1, 64, "host.cores", "{file: /etc/config.yaml, key: server.http.threads}"
)
MOUNTED = "services: {web: {image: 'web:1', volumes: ['./config.yaml:/etc/config.yaml:ro']}}\n"


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

TEMPLATED = "parameters:\n  size: " + numbers(1, 64, 10) + "\ntemplates: {/etc/web.conf: web.tmpl}"
TEMPLATE = "# $${HOME}\nsize ${web.size};\n"


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


# --------------------------------------------------------------------------- what compose gives

RESOURCES = """\
parameters:
  cpus: {kind: real, low: 0.25, high: 16, step: 0.25, default: host.cores, apply: {resource: cpus}}
  memory: {kind: integer, low: 64, high: 65536, unit: MiB, default: host.memory_mib, apply: {resource: memory}}
  replicas: {kind: integer, low: 1, high: 3, default: 1, apply: {resource: replicas}}
  files: {kind: integer, low: 1024, high: 1048576, default: 1024, apply: {resource: "ulimit:nofile"}}
  backlog: {kind: integer, low: 128, high: 65535, default: 4096, apply: {resource: "sysctl:net.core.somaxconn"}}"""
VALUES: dict[str, Value] = {"cpus": 0.5, "memory": 512, "replicas": 2, "files": 2048, "backlog": 1024}


def test_what_compose_gives_is_written_where_nothing_is(tmp_path: Path) -> None:
    application = load(tmp_path, RESOURCES, "services: {web: {image: w}}\n")
    assert web(rendered(application)) == {"image": "w"}
    assert web(rendered(application, **VALUES)) == {
        "image": "w",
        "cpus": "0.5",
        "mem_limit": "512m",
        "scale": 2,
        "ulimits": {"nofile": {"soft": 2048, "hard": 2048}},
        "sysctls": {"net.core.somaxconn": "1024"},
    }


def test_what_the_user_gives_is_the_default_and_is_written_in_its_place(tmp_path: Path) -> None:
    compose = """\
services:
  web:
    image: w
    cpus: 1.5
    deploy: {replicas: 2, resources: {limits: {memory: 1G}}}
    ulimits: {nofile: {soft: 4096, hard: 65536}}
    sysctls: [net.core.somaxconn=512, net.ipv4.tcp_syncookies=0]
"""
    application = load(tmp_path, RESOURCES, compose)
    assert space(application).default() == {
        "web.cpus": 1.5, "web.memory": 1024, "web.replicas": 2, "web.files": 4096, "web.backlog": 512,
    }  # fmt: skip
    assert web(rendered(application, **{**VALUES, "replicas": 3})) == {
        "image": "w",
        "cpus": "0.5",
        "deploy": {"replicas": 3, "resources": {"limits": {"memory": "512m"}}},
        "ulimits": {"nofile": {"soft": 2048, "hard": 65536}},
        "sysctls": {"net.core.somaxconn": "1024", "net.ipv4.tcp_syncookies": "0"},
    }


def test_memory_in_bytes_is_read_as_compose_prints_it(tmp_path: Path) -> None:
    application = load(tmp_path, RESOURCES, "services: {web: {image: w, mem_limit: '536870912'}}\n")
    assert application.present["web.memory"].value == 512


def test_limits_end_at_the_host_and_their_sum_does_too(tmp_path: Path) -> None:
    application = load(tmp_path, RESOURCES, "services: {web: {image: w, cpus: 1, mem_limit: 1g}}\n")
    searched = space(application)
    assert searched["web.cpus"].high == CORES
    assert searched["web.memory"].high == MEMORY_MIB
    assert searched.is_feasible(Configuration({**searched.default(), "web.replicas": 3}))
    assert not searched.is_feasible(Configuration({**searched.default(), "web.replicas": 3, "web.cpus": 2.0}))
    assert not searched.is_feasible(Configuration({**searched.default(), "web.replicas": 3, "web.memory": 2048}))


def test_today_s_limits_may_exceed_the_host(tmp_path: Path) -> None:
    application = load(tmp_path, RESOURCES, "services: {web: {image: w, scale: 2}}\n")
    assert space(application).is_feasible(space(application).default()), "no limit at all is what runs today"


# --------------------------------------------------------------------------- read-back


class Engine:
    """An engine with one container, as it would tell of it."""

    def __init__(self, about: Mapping[str, Any], files: Mapping[str, str]) -> None:
        self.about, self.files = about, files

    def inspect(self, container: str) -> Mapping[str, Any]:
        return self.about

    def archive(self, container: str, path: str) -> bytes | None:
        if path not in self.files:
            return None
        content, made = self.files[path].encode(), io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            member = tarfile.TarInfo(path.rpartition("/")[2])
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        return made.getvalue()


GIVEN: Mapping[str, Any] = {
    "HostConfig": {
        "NanoCpus": 500_000_000,
        "Memory": 512 << 20,
        "Ulimits": [{"Name": "nofile", "Soft": 2048, "Hard": 65536}],
        "Sysctls": {"net.core.somaxconn": "1024"},
    }
}
CONTAINERS = {"web": Container("web", "1", "web", "w", "", "10.0.0.2", 1, "")}


def told(engine: Engine, deployment: Deployment) -> tuple[str, ...]:
    return read_back(engine, deployment.expectations, CONTAINERS)  # type: ignore[arg-type]


def test_the_engine_proves_what_it_gives(tmp_path: Path) -> None:
    application = load(tmp_path, RESOURCES, "services: {web: {image: w}}\n")
    changed = {name: value for name, value in VALUES.items() if name != "replicas"}
    assert told(Engine(GIVEN, {}), rendered(application, **changed)) == ()
    assert told(Engine({}, {}), rendered(application)) == (), "at the default nothing is written"
    for name, other in {"cpus": 0.75, "memory": 513, "files": 2049, "backlog": 1025}.items():
        with pytest.raises(ParameterNotApplied):
            told(Engine(GIVEN, {}), rendered(application, **{**changed, name: other}))


def test_a_file_shows_a_value_at_its_key(tmp_path: Path) -> None:
    deployment = rendered(load(tmp_path, THREADS, MOUNTED), threads=16)
    [text] = deployment.files.values()
    assert told(Engine({}, {"/etc/config.yaml": text}), deployment) == ("web.threads",)
    for other in (CONFIG, "", "server: ["):
        with pytest.raises(ParameterNotApplied, match="nor does the container show '16'"):
            told(Engine({}, {"/etc/config.yaml": other}), deployment)


def test_a_template_s_line_shows_a_value(tmp_path: Path) -> None:
    deployment = rendered(load(tmp_path, TEMPLATED, "services: {web: {image: w}}\n", {"web.tmpl": TEMPLATE}), size=9)
    assert told(Engine({}, {"/etc/web.conf": "size 9;\n"}), deployment) == ("web.size",)
    with pytest.raises(ParameterNotApplied):
        told(Engine({}, {"/etc/web.conf": "size 10;\n"}), deployment)


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
