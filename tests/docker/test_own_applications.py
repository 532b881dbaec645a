"""Applications as other people have them, deployed: images that are built, replicas, restarts, networks, passwords."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.compose import render
from framework.compose.completed import completed
from framework.config.application import load_application
from framework.config.knowledge import built_in_directory, load_service_types, resolved
from framework.config.space import search_space
from framework.errors import DeploymentFailed, InputError, MissingPrerequisite
from framework.model import Application, Deployment, Running
from framework.testbeds.docker import probes
from framework.testbeds.docker.builds import OWNER, DockerBuilds
from framework.testbeds.docker.compose_config import ComposeConfig
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.image_reader import DockerImages
from framework.testbeds.docker.owner import Owner
from framework.testbeds.docker.testbed import DockerTestbed
from optimizer.space import Configuration, Value
from tests.testbed_documents import new_project, quiet

pytestmark = pytest.mark.docker

APPLICATION = """\
kind: application
version: 1
name: own
compose: compose.yaml
services: {services}
workload: {{file: workload.yaml, rate_rps: 5, target: "{target}"}}
"""
WORKLOAD = "kind: workload\nversion: 1\ntimeout_ms: 1000\nrequests:\n  - {name: a, weight: 1, path: /}\n"


class Own:
    """An application in a directory, and what was deployed of it."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.projects = directory, [new_project()]
        self.spaces = directory / "types"
        self.spaces.mkdir()
        self.types = load_service_types()
        self.testbed = DockerTestbed(directory / "home", self.types, ready_timeout_s=30.0)

    def write(
        self, compose: str, services: str = "{cache: {type: redis}}", target: str = "http://web:80"
    ) -> Application:
        """Write the application's files, and return it as the program reads it."""
        (self.directory / "compose.yaml").write_text(compose)
        (self.directory / "application.yaml").write_text(APPLICATION.format(services=services, target=target))
        (self.directory / "workload.yaml").write_text(WORKLOAD)
        return self.read()

    def read(self) -> Application:
        application = load_application(self.directory, ComposeConfig())
        return completed(application, self.types, DockerBuilds(), DockerImages())

    def deployment(self, application: Application, **changed: Value) -> Deployment:
        """Render the application at its default, but for ``service__parameter=value``."""
        types = resolved(self.types, cores=2, memory_mib=8192)
        space = search_space(application, self.types, cores=2, memory_mib=8192)
        values = {name.replace("__", "."): value for name, value in changed.items()}
        configuration = Configuration({**space.default(), **values})
        return render(application, types, configuration, project=self.projects[0], labels={})

    def deploy(self, application: Application, **changed: Value) -> Running:
        self.testbed.check(application)
        return self.testbed.deploy(self.deployment(application, **changed), quiet)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Own]:
    made = Own(tmp_path)
    yield made
    for project in made.projects:
        made.testbed.clean(project, data=True)


def test_port_password_and_a_shell_s_line(own: Own) -> None:
    application = own.write(
        "services:\n"
        "  web: {image: 'nginx:1.22'}\n"
        "  cache: {image: 'redis:7.0', entrypoint: [sh, -c], command: ['redis-server --requirepass x --port 6380']}\n"
    )
    own.deploy(application)
    own.deploy(application, cache__hz=50)


def test_present_values_are_the_default_and_may_be_left(own: Own) -> None:
    application = own.write(
        "services:\n"
        "  web: {image: 'nginx:1.22'}\n"
        "  cache: {image: 'redis:7.0', command: redis-server --maxmemory 1gb --hz 20}\n"
    )
    assert application.present["cache.maxmemory_mib"].value == 1024
    own.deploy(application)
    own.deploy(application, cache__maxmemory_mib=128, cache__hz=30)


def test_a_file_inside_an_image_is_copied_out_and_changed(own: Own) -> None:
    application = own.write(
        "services:\n  web: {image: 'nginx:1.22'}\n", "{web: {type: nginx, fixed: {upstream_keepalive: default}}}"
    )
    assert application.images["web"].files
    own.deploy(application, web__worker_connections=2048)


def test_every_replica_is_read_back_and_counted(own: Own) -> None:
    application = own.write(
        "services:\n  web: {image: 'nginx:1.22', deploy: {replicas: 3}}\n  cache: {image: 'redis:7.0', scale: 2}\n"
    )
    running = own.deploy(application, cache__hz=50)
    assert {name: len(container.replicas) for name, container in running.containers.items()} == {"web": 3, "cache": 2}
    usage = own.testbed.usage(running)
    assert set(usage.cpu_s) == {"web", "cache"}
    own.testbed.alive(running)
    second = running.containers["cache"].others[0]
    Engine().stop([second.id], 1, Owner.project(running.deployment.project))
    with pytest.raises(DeploymentFailed, match="cache: its container is exited"):
        own.testbed.alive(running)


def test_a_restart_while_dependencies_come_up_is_no_failure(own: Own) -> None:
    waits = "until redis-cli -h cache ping; do exit 1; done; exec redis-server --port 80"
    application = own.write(
        "services:\n"
        f"  web: {{image: 'redis:7.0', restart: always, entrypoint: [sh, -c, 'sleep 0.2; {waits}']}}\n"
        "  cache: {image: 'redis:7.0', entrypoint: [sh, -c, 'sleep 3; exec redis-server --protected-mode no']}\n"
    )
    running = own.deploy(application)
    assert running.containers["web"].restarts > 0
    own.testbed.alive(running)


def test_without_a_restart_policy_a_failure_is_one(own: Own) -> None:
    application = own.write(
        "services:\n"
        "  web: {image: 'redis:7.0', entrypoint: [sh, -c, 'sleep 0.2; exit 1']}\n"
        "  cache: {image: 'redis:7.0'}\n"
    )
    with pytest.raises(DeploymentFailed, match="web: its container is exited with 1"):
        own.deploy(application)


def test_a_one_shot_may_end_with_0(own: Own) -> None:
    application = own.write(
        "services:\n"
        "  web: {image: 'nginx:1.22', depends_on: [migrate]}\n"
        "  migrate: {image: 'nginx:1.22', command: ['true']}\n"
        "  cache: {image: 'redis:7.0'}\n"
    )
    running = own.deploy(application)
    assert set(running.containers) == {"web", "cache"}


def test_the_generator_joins_the_network_of_the_entry(own: Own) -> None:
    application = own.write(
        "services:\n"
        "  web: {image: 'nginx:1.22', networks: [front]}\n"
        "  api: {image: 'nginx:1.22', networks: [front, back]}\n"
        "  store: {image: 'redis:7.0', networks: [back]}\n"
        "  cache: {image: 'redis:7.0', networks: [back]}\n"
        "networks: {front: {}, back: {}}\n"
    )
    running = own.deploy(application)
    assert running.network.endswith("_front")
    assert running.also == ()


def test_an_image_is_built_and_named_by_its_content(own: Own) -> None:
    (own.directory / "web").mkdir()
    (own.directory / "web" / "Dockerfile").write_text("FROM nginx:1.22\nCOPY page /page\n")
    (own.directory / "web" / "page").write_text("one")
    compose = "services:\n  web: {build: web}\n  cache: {image: 'redis:7.0'}\n"
    application = own.write(compose)
    image = str(application.compose["services"]["web"]["image"])
    try:
        running = own.deploy(application)
        assert running.containers["web"].image == image
        (own.directory / "web" / "page").write_text("two")
        assert own.read().compose["services"]["web"]["image"] != image
        (own.directory / "web" / "Dockerfile").write_text(f"FROM nginx:1.22\nRUN exit 3 # {own.projects[0]}\n")
        with pytest.raises(MissingPrerequisite, match="the image of web cannot be built"):
            own.testbed.check(own.read())
        every = ["docker", "ps", "--all", "--no-trunc", "--format", "{{.Command}}"]
        commands = subprocess.run(every, capture_output=True, text=True, check=True).stdout
        assert own.projects[0] not in commands, "no container of the step that failed stays"
    finally:
        own.testbed.clean(own.projects[0])
        Engine()._ask("remove an image", lambda api: api.remove_image(image, force=True))


def test_without_a_read_back_a_value_counts_as_passed(own: Own) -> None:
    shutil.copy(built_in_directory() / "redis.yaml", own.spaces / "any.yaml")
    text = (own.spaces / "any.yaml").read_text().replace("name: redis", "name: any", 1)
    (own.spaces / "any.yaml").write_text(
        text.split("parameters:")[0]
        + (
            "parameters:\n"
            "  hz:\n"
            "    {description: a, kind: integer, low: 1, high: 100, default: 10, role: inert, source: b,\n"
            "     apply: {flag: '--hz {value}'}}\n"
            "  arena:\n"
            "    {description: a, kind: integer, low: 1, high: 8, default: 4, role: inert, source: b,\n"
            "     apply: {environment: MALLOC_ARENA_MAX}, read_back: {command: [no-such-tool], pattern: '(a)'}}\n"
        )
    )
    own.types = {**own.types, **load_service_types([own.spaces])}
    own.testbed = DockerTestbed(own.directory / "home", own.types, ready_timeout_s=30.0)
    application = own.write(
        "services:\n  web: {image: 'nginx:1.22'}\n  cache: {image: 'redis:7.0'}\n", "{cache: {type: any}}"
    )
    assert own.deploy(application).passed == ()
    assert own.deploy(application, cache__hz=50, cache__arena=2).passed == ("cache.hz", "cache.arena")


def test_a_service_that_nobody_knows_is_ready_when_it_listens(own: Own) -> None:
    application = own.write(
        "services:\n"
        "  web: {image: 'nginx:1.22'}\n"
        "  slow: {image: 'redis:7.0', entrypoint: [sh, -c, 'sleep 3; exec redis-server --protected-mode no']}\n"
        "  worker: {image: 'redis:7.0', entrypoint: [sh, -c, 'sleep 1000']}\n"
        "  cache: {image: 'redis:7.0'}\n"
    )
    running = own.deploy(application)
    assert probes.listens(Engine(), running.containers["slow"].id)
    assert not probes.listens(Engine(), running.containers["worker"].id)
    assert 3.0 <= running.phases["healthy"] < 25.0, "a worker with the image of a server is waited for a while only"


def test_images_that_were_built_are_removed_when_asked_to(own: Own) -> None:
    (own.directory / "src").mkdir()
    (own.directory / "src" / "Dockerfile").write_text(f"FROM redis:7.0\nENV PROJECT={own.projects[0]}\n")
    application = own.write("services:\n  web: {image: 'nginx:1.22'}\n  cache: {build: src, command: [redis-server]}\n")
    image = application.compose["services"]["cache"]["image"]
    running = own.deploy(application)
    assert not running.containers["cache"].standin, "it is built on one"
    assert image in DockerBuilds().kept()
    assert not Engine().labelled.remove(image, OWNER), "a container uses it"
    own.testbed.clean(own.projects[0])
    assert Engine().labelled.remove(image, OWNER)
    assert image not in DockerBuilds().kept()
    with pytest.raises(InputError, match=r"was not made for tailor\.built=true"):
        Engine().labelled.remove("redis:7.0", OWNER)
    assert Engine().image("redis:7.0") is not None


def test_parameters_of_its_own_reach_a_service_and_the_engine_tells_what_it_gives(own: Own) -> None:
    (own.directory / "cache.tmpl").write_text("# of the team\nsize ${cache.size}\n")
    services = """
  cache:
    parameters:
      hz: {kind: integer, low: 1, high: 100, default: 10, apply: {flag: "--hz {value}"}}
      depth: {kind: integer, low: 1, high: 9, default: 2, apply: {file: /etc/own.yaml, key: "a[0].b", create: true}}
      limit: {kind: integer, low: 1, high: 9, default: 2, apply: {file: /etc/own.toml, key: pool.limit, create: true}}
      size: {kind: integer, low: 1, high: 64, default: 10}
      cpus: {kind: real, low: 0.25, high: host.cores, default: host.cores, apply: {resource: cpus}}
      memory: {kind: integer, low: 64, high: 512, unit: MiB, default: host.memory_mib, apply: {resource: memory}}
      replicas: {kind: integer, low: 1, high: 2, default: 1, apply: {resource: replicas}}
      files: {kind: integer, low: 1024, high: 65536, default: 1024, apply: {resource: "ulimit:nofile"}}
      backlog: {kind: integer, low: 128, high: 65535, default: 4096, apply: {resource: "sysctl:net.core.somaxconn"}}
    templates: {/etc/own.conf: cache.tmpl}"""
    application = own.write(
        "services:\n  web: {image: 'nginx:1.22'}\n  cache: {image: 'redis:7.0', command: [redis-server]}\n", services
    )
    assert own.deploy(application).passed == ("cache.size",), "its template is always there; nothing else is written"
    running = own.deploy(
        application,
        cache__hz=50,
        cache__depth=3,
        cache__limit=4,
        cache__size=20,
        cache__cpus=0.5,
        cache__memory=128,
        cache__replicas=2,
        cache__files=2048,
        cache__backlog=1024,
    )
    assert running.passed == ("cache.hz", "cache.depth", "cache.limit", "cache.size"), "the rest the engine tells"
    assert len(running.containers["cache"].replicas) == 2
