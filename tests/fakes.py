"""The stand-ins of ``framework.testing``, wired with a real store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from framework.bench import Backends, Bench, Colocation, Watch
from framework.bootstrap.adapters import Opened, assembled
from framework.config.space import search_space
from framework.model import Study, StudyPlan, StudyState
from framework.model.topology import Topology
from framework.ports.energy import EnergyMeter
from framework.store.artefacts import FileArtefacts
from framework.store.database import Database
from framework.store.studies import SqlStudyStore
from framework.study.procedure import Procedure
from framework.testing.pretend import MACHINE, PretendMachine, pretend_application, pretend_kind, pretend_types
from framework.traces.files import read_all


def pretend_bench(
    directory: Path, machine: PretendMachine, watch: Watch = lambda event: None, *, idle: Sequence[str] = ()
) -> Bench:
    """A bench on the pretend machine with a real store in ``directory``."""
    artefacts = FileArtefacts(directory / "artefacts")
    store = SqlStudyStore(Database(f"sqlite:///{directory / 'tailor.db'}"), artefacts, machine.clock)
    return Bench(
        pretend_application(directory, *idle),
        pretend_types(),
        machine,
        machine,
        machine,
        store,
        artefacts,
        machine.clock,
        watch,
    )


def pretend_tailor(
    directory: Path,
    machine: PretendMachine,
    colocation: Callable[[], Colocation] | None = None,
    cpus: Topology | None = None,
    energy: Callable[[str], EnergyMeter] | None = None,
    **more: Any,
) -> tuple[Opened, Database]:
    """The use cases on the pretend machine, with a real store in ``directory``."""
    artefacts, clock = FileArtefacts(directory / "artefacts"), machine.clock
    database = Database(f"sqlite:///{directory / 's.db'}")
    store = SqlStudyStore(database, artefacts, clock)
    backends = Backends(
        store=store,
        artefacts=artefacts,
        clock=clock,
        kinds=[pretend_kind(machine, cpus=cpus, colocation=colocation, energy=energy)],
        traces=read_all,
        home=directory,
        spaces=(),
        **more,
    )
    return assembled(backends, database), database


def begun(bench: Bench, plan: StudyPlan) -> tuple[Study, Procedure]:
    """Create the study ``s1`` of a bench's application; return it with its procedure."""
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    study = Study("s1", "now", StudyState.CREATED, plan, "0", space.to_dict(), MACHINE, {}, "pretend")
    bench.store.create(study)
    return study, Procedure(bench, study, space)


def again(bench: Bench) -> Procedure:
    """Return the procedure of ``s1`` as another process would open it."""
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    return Procedure(bench, bench.store.get("s1"), space)
