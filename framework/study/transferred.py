"""Effects of parameters, told by studies of other applications with servers of the same types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from framework.errors import FieldName, InputError
from framework.model import EXTERNAL, Application, Objective, Study, StudyId, TrialState
from framework.model.decisions import ImportedResults, Transfer, TransferSource
from framework.model.study import display_name
from framework.ports.store import StudyStore
from framework.study.warm_start import results_of
from optimizer.errors import InvalidInput, NotOfThisSpace
from optimizer.models.effects import Effect, Measured, learnt_effects, parameter_names
from optimizer.space import SearchSpace
from optimizer.transfer import carried


def transferred(
    sources: Sequence[StudyId],
    application: Application,
    space: SearchSpace,
    store: StudyStore,
    read: Callable[[Path], Application],
) -> Transfer | None:
    """Return the effects that studies of other applications tell of ``space``; None without sources.

    Values are computed anew from the studies' measurements, by this application's objective.  ``read``: reads the
    application in a directory.  Raises InputError where a study has too few results, or shares no parameter of a type
    of server with ``space``; NotFound.
    """
    if not sources:
        return None
    types = _types(application)
    learnt = []
    for source in dict.fromkeys(sources):
        study = store.get(source)
        effects = _shared(study, _effects(study, application.objective, store, read), space, types)
        learnt.append(TransferSource(display_name(study), study.application_name, effects))
    return Transfer(types, tuple(learnt))


def _effects(
    study: Study, objective: Objective, store: StudyStore, read: Callable[[Path], Application]
) -> tuple[Effect, ...]:
    """Return the effects in the application of a study."""
    if study.testbed == EXTERNAL:
        raise InputError(
            FieldName("transfer"), f": study {study.id} is measured elsewhere, so that nobody knows the types of its "
            "servers; allowed: studies of applications",
        )  # fmt: skip
    try:
        types = _types(read(study.directory))
    except InputError as error:  # it names a file, which only `tailor show` may say
        raise InputError(
            FieldName("transfer"), f": study {study.id}: the description of its application {study.application_name} "
            "cannot be read, which says the types of its servers (tailor show says why)",
        ) from error  # fmt: skip
    space = SearchSpace.from_dict(study.space)
    results = results_of(StudyId(study.id), objective, store, "transfer")
    try:
        return learnt_effects(space, types, [*_measured(results, space), *_failed(study, space, store)])
    except InvalidInput as error:
        raise InputError(FieldName("transfer"), f": study {study.id}: {error}") from error


def _shared(study: Study, effects: Sequence[Effect], space: SearchSpace, types: dict[str, str]) -> tuple[Effect, ...]:
    """Return the effects of types of servers that this application has.  Raises InputError where none is of use."""
    here = parameter_names(space, types)
    if not any(effect.parameter in here.get(effect.server, ()) for effect in effects):
        there = {effect.server for effect in effects}
        both = ", ".join(sorted(there & set(types.values())))
        raise InputError(
            FieldName("transfer"), f": study {study.id} of {study.application_name} shares no parameter of a type of "
            f"server with {len(space)} parameters here; types tuned there: {', '.join(sorted(there)) or 'none'}; here: "
            f"{', '.join(sorted(here)) or 'none'}; both applications have: {both or 'none'}",
        )  # fmt: skip
    return tuple(effect for effect in effects if effect.server in types.values())


def _types(application: Application) -> dict[str, str]:
    """Return service -> type of server; services without a type are left out."""
    return {service.name: service.type for service in application.services if service.type}


def _measured(results: ImportedResults, space: SearchSpace) -> Iterator[Measured]:
    for known in results.results:
        with suppress(NotOfThisSpace):  # from before an edit of its space
            yield Measured(carried(space, known.values, results.default), known.log_ratio, known.error)


def _failed(study: Study, space: SearchSpace, store: StudyStore) -> Iterator[Measured]:
    default = space.default()
    for trial in store.trials(study.id):
        if trial.purpose == "search" and trial.state in (TrialState.FAILED, TrialState.INFEASIBLE):
            with suppress(NotOfThisSpace):
                yield Measured(carried(space, {**default, **trial.configuration}, default), None)
