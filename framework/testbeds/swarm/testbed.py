"""The Swarm testbed: one stack over the nodes of a swarm, each service on the host that application.yaml gives it.

deploy = write the document, copy images, remove the old stack, restore the data on their nodes, start in waves, wait
until ready, run live commands, read back.  What runs on a node is asked of that node's own engine.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from framework.compose.gate import CLOSED, Gate
from framework.compose.hosts import as_designed
from framework.compose.interpolation import escaped
from framework.config.writing import to_yaml
from framework.errors import DeploymentFailed, InputError
from framework.model import (
    Application,
    Container,
    Deployment,
    Finding,
    Hook,
    Machine,
    Probe,
    Running,
    Usage,
)
from framework.model.links import links_in_words
from framework.ports.testbed import Progress
from framework.testbeds.docker import probes
from framework.testbeds.docker.connection import Connection
from framework.testbeds.docker.document import Wanted, one_document, wanted
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.full_disk import check_disk
from framework.testbeds.docker.generators import GENERATOR, check_generator, generator_image
from framework.testbeds.docker.inventory import describe_containers, networks_of
from framework.testbeds.docker.listed import SERVICE, Listed
from framework.testbeds.docker.machine import describe
from framework.testbeds.docker.owner import PROJECT, Owner
from framework.testbeds.docker.read_back import read_back, read_statistics
from framework.testbeds.docker.readiness import Readiness, ended
from framework.testbeds.docker.run_directory import compose_file, write
from framework.testbeds.docker.testbed import READY_TIMEOUT_S, Phases
from framework.testbeds.docker.usage import CpuCounters
from framework.testbeds.swarm import clean, hooks, links
from framework.testbeds.swarm.data import SwarmData
from framework.testbeds.swarm.examination import examine
from framework.testbeds.swarm.fleet import Node
from framework.testbeds.swarm.images import Images
from framework.testbeds.swarm.members import Members
from framework.testbeds.swarm.stack import Stack, stack_of
from framework.testbeds.swarm.way_in import WayIn

PAUSE_S = 0.2


class SwarmTestbed:
    """Testbed on a Docker Swarm; implements ``framework.ports.testbed.Testbed``.

    ``endpoints``: docker contexts or URLs of the nodes' engines.  ``application``: None where the testbed only cleans
    and examines.
    """

    __test__ = False

    name = "swarm"
    modelled = False

    def __init__(
        self,
        home: Path,
        endpoints: Sequence[str],
        application: Application | None = None,
        *,
        gate: Gate = CLOSED,
        ready_timeout_s: float = READY_TIMEOUT_S,
    ) -> None:
        self._home, self._endpoints, self._application = home, tuple(endpoints), application
        self._gate, self._ready_timeout_s = gate, ready_timeout_s
        self._images = Images(Engine(), Connection())
        self._way_in = WayIn(application)
        self.members = Members(endpoints, application, self._way_in.entered, lambda: self._way_in.home_agent)
        self._cores = 0
        self._counters: CpuCounters | None = None
        self._data = SwarmData(home)

    # ------------------------------------------------------------------ the swarm

    def machine(self) -> Machine:
        """Describe the nodes as one machine: the sum of cores and memory of distinct engines."""
        infos = [node.engine.info() for node in self.members.swarm.nodes]
        described = describe(self.members.home.engine)
        # Engines of one machine (in network namespaces of their own) share its kernel, and so its cores.
        distinct = {(info["KernelVersion"], info["Name"], info["MemTotal"], info["NCPU"]): info for info in infos}
        return replace(
            described,
            hostname=", ".join(dict.fromkeys(str(info["Name"]) for info in infos)),
            cores=sum(int(info["NCPU"]) for info in distinct.values()),
            memory_mib=sum(int(info["MemTotal"]) >> 20 for info in distinct.values()),
            engine=f"{described.engine}, swarm of {len(infos)}",
        )

    # ------------------------------------------------------------------ before the first trial

    def check(self, application: Application) -> None:
        """Check that the application can run here.  Raises MissingPrerequisite, InputError, TestbedUnavailable."""
        self._gate.application(application)
        if application.dataset is not None and application.dataset.kind in ("running", "directory"):
            raise InputError(f"dataset.kind: {application.dataset.kind} is of one machine; allowed on a swarm: empty")
        self.members.engine.version()
        for host in dict.fromkeys(as_designed(application).hosts.values()):
            self.members.swarm.host(host)
        check_generator(Engine(), application)

    def notes(self, application: Application) -> Sequence[str]:
        """Say, in sentences, how a study's deployment differs from the user's own."""
        hosts = as_designed(application).hosts
        by_host: dict[str, list[str]] = {}
        for service, host in hosts.items():
            by_host.setdefault(host, []).append(service)
        placed = [f"{', '.join(services)} on host {host} ({self.members.swarm.host(host).name})"
                  for host, services in by_host.items()]  # fmt: skip
        kept = application.hooks.seed is not None or not application.compose.get("volumes")
        without = () if kept else ("volumes start empty: without a seed hook a swarm keeps no data",)
        clocks = [f"the clock of node {node} is {off}" for node in self.members.swarm.nodes
                  if (off := node.clock_is_off)]  # fmt: skip
        calls = links_in_words(links.kept(self._home, self.members.swarm.nodes))
        return [*self._gate.admitted(application).notes, *placed, *without, *clocks, *filter(None, [calls])]

    def load_dataset(self, application: Application, default: Deployment, progress: Progress) -> None:
        """Make the dataset once by the seed hook, and keep it on the nodes of its volumes.  Raises TrialFailed."""
        self._gate.application(application)
        want = self._wanted(default)
        self._distribute(default, want, progress)
        self._data.load(application, default, want, self._nodes_of(default, want), self.members, self, progress)

    # ------------------------------------------------------------------ a repetition

    def deploy(self, deployment: Deployment, progress: Progress) -> Running:
        """Bring the swarm to the desired state: services up and ready, data restored, parameters read back.

        Raises DeploymentFailed, ParameterNotApplied, TestbedUnavailable where a node does not answer.
        """
        phases, project = Phases(), deployment.project
        self._forget()  # nodes, and who manages them, may have changed
        self.members.watch()
        want = self._wanted(deployment)
        nodes = self._nodes_of(deployment, want)
        directory = self._home / "run" / project
        with phases.phase("write", progress):
            write(directory, escaped(want.document), deployment.files, want.files)
            services = {service: node.id for service, node in nodes.items()}
            stack = stack_of(replace(want, document=escaped(want.document)), project, directory, services)
            ids = self._distribute(deployment, want, progress)
            stack = stack.of_images({name: ids[want.images[name]] for name in want.services})
            stack = stack.with_agents([node.id for node in self.members.swarm.nodes], ids[GENERATOR], want.labels)
        with phases.phase("remove", progress):
            clean.renew(self.members.swarm, project)
        with phases.phase("restore", progress):
            restored = self._data.restore(deployment, want, nodes)
        with phases.phase("start", progress):
            self._start(deployment, want, stack, directory, progress)
        with phases.phase("healthy", progress):
            listed = self._wait(deployment, want, want.services, progress)
            self._way_in.wait_until_known()
            networks = networks_of(listed, deployment.reached)
            described = describe_containers(self.members.engine, listed, want, networks.entry)
            containers = {name: replace(first, image=want.images[name]) for name, first in described.items()}
            containers = self._way_in.reached(deployment, containers)
            self._pin(project, stack, containers)
        with phases.phase("live", progress):
            for service, command in deployment.live:
                code, output = self.members.engine.execute(containers[service].id, command)
                if code:
                    raise DeploymentFailed(f"{' '.join(command)} ended with {code}", service, output)
        with phases.phase("read back", progress):
            passed = read_back(self.members.engine, deployment.expectations, containers)
        self._counters, self._cores = CpuCounters(self.members.engine), self.machine().cores
        hosts = ",".join(f"{service}={node.host}" for service, node in nodes.items())
        added = {PROJECT: project, "tailor.restored": restored, "tailor.fresh": "all", "tailor.hosts": hosts}
        labels = {**deployment.labels, **added}
        return Running(
            replace(deployment, labels=labels), networks.entry, containers, phases.seconds, networks.also, passed
        )

    def _nodes_of(self, deployment: Deployment, want: Wanted) -> Mapping[str, Node]:
        """Return service -> its node.  Raises MissingPrerequisite for a host that no node is, DeploymentFailed where a
        service would leave its data.
        """
        designed = as_designed(self._application).hosts if self._application else {}
        for service in {name for holders in want.holders.values() for name in holders} & set(deployment.hosts):
            if deployment.hosts[service] != designed.get(service):
                raise DeploymentFailed(f"its data are on host {designed.get(service)}: it cannot move", service)
        hosts = {**designed, **deployment.hosts}
        first = self._application.hosts[0] if self._application else ""
        return {name: self.members.swarm.host(hosts.get(name, first)) for name in want.services}

    def _start(self, deployment: Deployment, want: Wanted, stack: Stack, directory: Path, progress: Progress) -> None:
        """Start the stack in waves, with Tailor's own containers on the nodes after the first."""
        file = compose_file(directory).with_name("stack.yaml")
        for number, wave in enumerate(stack.waves):
            self._way_in.wait_until_known()  # of the waves before; nothing before the first
            file.write_text(to_yaml(stack.of_wave(number)))
            self.members.swarm.manager.deploy(deployment.project, file)
            self._appear(deployment.project, want, wave, progress)
            if not number:
                self._way_in.open(deployment, self.members.swarm.nodes, self.members.home)
            if waited := _waited_for(want, wave):
                self._wait(deployment, want, waited, progress)

    def _appear(self, project: str, want: Wanted, services: Sequence[str], progress: Progress) -> None:
        """Wait until the services have started containers.  Raises DeploymentFailed, naming service and node."""
        deadline = time.monotonic() + self._ready_timeout_s
        owner = Owner.project(project)
        names = {node.id: str(node) for node in self.members.swarm.nodes}
        while True:
            counts: dict[str, int] = {}
            for container in self.members.engine.containers(str(owner)):
                if container.state != "created":
                    counts[container.service] = counts.get(container.service, 0) + 1
            left = [name for name in services if counts.get(name, 0) < want.replicas.get(name, 1)]
            if not left:
                return
            for task in self.members.swarm.manager.tasks(owner):
                status = task.get("Status") or {}
                if status.get("State") == "rejected":
                    service = (task["Spec"]["ContainerSpec"].get("Labels") or {}).get(SERVICE, "")
                    where = names.get(str(task.get("NodeID")), "no node")
                    raise DeploymentFailed(f"node {where} refuses its container: {status.get('Err', '')}", service)
            if time.monotonic() > deadline:
                raise DeploymentFailed(f"no container after {self._ready_timeout_s:g} s", left[0])
            progress(f"waiting for containers of {', '.join(left[:3])}")
            time.sleep(PAUSE_S)

    def _wait(
        self, deployment: Deployment, want: Wanted, services: Sequence[str], progress: Progress
    ) -> dict[str, list[Listed]]:
        ready = {name: self._ready(deployment, name) for name in services}
        readiness = Readiness(self.members.engine, deployment.project, want.finite, want.restarted, want.replicas)
        return readiness.wait(ready, self._ready_timeout_s, progress)

    def _ready(self, deployment: Deployment, service: str) -> Probe | None:
        kind = deployment.types.get(service)
        if kind is not None and kind.ready is not None:
            return kind.ready
        return Probe("listens", f"({probes.LISTENS})") if service in deployment.reached else None

    def _pin(self, project: str, stack: Stack, containers: Mapping[str, Container]) -> None:
        for service, cpus in stack.cpusets.items():
            for container in containers[service].replicas:
                self.members.engine.set_cpus(container.id, cpus, Owner.project(project))

    # ------------------------------------------------------------------ while it runs

    def run_hook(self, running: Running, hook: Hook) -> str:
        """Run a one-shot service on the home node; return its output.  Raises TrialFailed where it fails."""
        project = running.deployment.project
        return hooks.run(self.members.side_containers(), self._wanted(running.deployment), project, hook)

    def usage(self, running: Running) -> Usage:
        """Read CPU time and pressure of all nodes [s].  Raises DeploymentFailed where a container ended."""
        if self._counters is None:
            self._counters = CpuCounters(self.members.engine)
        try:
            usage = self._counters.read(running.containers)
        except DeploymentFailed:
            self.alive(running)
            raise
        machines = self._way_in.machines(self.members.swarm.nodes)
        if not machines:  # nothing is deployed: the counters of this machine
            return usage
        pressures = [counters.pressure_s for counters in machines]
        return replace(
            usage,
            host_cpu_s=sum(counters.busy_s for counters in machines),
            stolen_s=sum(counters.stolen_s for counters in machines),
            pressure_cpu_s=None if None in pressures else max(filter(None, pressures), default=0.0),
            cores=self._cores,
        )

    def statistics(self, running: Running) -> Mapping[str, Mapping[str, float]]:
        """Read the statistics that service types define: service -> name -> number.  Raises DeploymentFailed."""
        kinds = {service: kind for service, kind in running.deployment.types.items() if service in running.containers}
        return read_statistics(self.members.engine, kinds, running.containers)

    def alive(self, running: Running) -> None:
        """Check that all containers run.  Raises DeploymentFailed, TestbedUnavailable where a node does not answer."""
        by_id = {c.id: c for c in self.members.engine.containers(f"{PROJECT}={running.deployment.project}")}
        for service, first in running.containers.items():
            for container in first.replicas:
                listed = by_id.get(container.id)
                if listed is None:
                    raise DeploymentFailed("its container is gone", service)
                if listed.state != "running":
                    raise DeploymentFailed(
                        f"its container is {ended(listed)}", service, self.members.engine.logs(listed.id)
                    )

    def check_itself(self, failure: str) -> None:
        """Raise TestbedUnavailable where a disk is full, or a node was lost since the deployment began."""
        check_disk(failure, lambda: self._way_in.have_room(self.members.swarm.nodes))
        self.members.check()
        self._way_in.check(self.members.swarm.nodes)

    # ------------------------------------------------------------------ clean-up and examination

    def projects(self) -> Collection[str]:
        """Return every project that has something on a node."""
        return clean.projects(self.members.answering())

    def clean(self, project: str, *, data: bool = False) -> Sequence[str]:
        """Remove all of a project on every node; return what was removed.  Raises TestbedUnavailable for a lost one."""
        self._forget()
        self.members.unwatch()
        return clean.clean(self.members.answering(), project)

    def clean_datasets(self) -> Sequence[str]:
        """Remove the kept data on every node that no deployment uses; return their names."""
        return self._data.remove(self.members.answering().nodes)

    def examine(self, applications: Sequence[Application]) -> Sequence[Finding]:
        """List what each node offers, what is missing on which, and how to get it."""
        return examine(self._endpoints, applications, self._home)

    # ------------------------------------------------------------------ inside

    def _forget(self) -> None:
        """Forget what runs, and the swarm, which is discovered anew."""
        self._way_in.close()
        self.members.forget()

    def _wanted(self, deployment: Deployment) -> Wanted:
        document = one_document(deployment)
        admitted = self._gate.deployment(deployment, document, self._home / "run" / deployment.project)
        if admitted.data:
            raise InputError(f"{', '.join(admitted.data)}: copies of data of one machine are not made on a swarm")
        return wanted(deployment, admitted)

    def _distribute(self, deployment: Deployment, want: Wanted, progress: Progress) -> Mapping[str, str]:
        """Bring the images to the nodes that run them, the hooks' and the generator's to the home node.

        Returns name -> id.
        """
        nodes = self._nodes_of(deployment, want)
        images: dict[str, set[str]] = {node.id: {GENERATOR} for node in self.members.swarm.nodes}
        for service, node in nodes.items():
            images[node.id].add(want.images[service])
        images[self.members.home.id] |= {want.images[name] for name in want.images if name not in want.services}
        if self._application is not None and (generator := generator_image(self._application)):
            images[self.members.home.id].add(generator)
        return self._images.distribute(images, self.members.swarm.nodes, progress)


def _waited_for(want: Wanted, services: Sequence[str]) -> list[str]:
    """Return those services that some other waits for to be healthy or to complete."""
    waited = {
        needed
        for body in want.document["services"].values() if isinstance(body.get("depends_on"), Mapping)
        for needed, how in body["depends_on"].items()
        if (how or {}).get("condition", "service_started") != "service_started"
    }  # fmt: skip
    return [name for name in services if name in waited]
