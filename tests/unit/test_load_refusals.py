"""Studies with load generators of others: what is refused, what doctor says, and what the plan records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from framework.bootstrap.adapters import refuse_command
from framework.compose.gate import Gate
from framework.config.application import load_application
from framework.config.knowledge import load_service_types
from framework.config.space import search_space
from framework.errors import FieldError, InputError
from framework.load.registry import GENERATORS
from framework.model import EXTERNAL_GENERATORS, Application, ExternalLoad, Term, TuneRequest
from framework.study.objective import planned
from framework.study.planning import check_request, study_plan
from framework.testbeds.docker.generators import GENERATOR, external_loads, generator_images, loop_notes
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from tests.fakes import pretend_tailor

KEY_VALUE = Path(__file__).parents[2] / "apps" / "key-value"
SCRIPTED = load_application(Path(__file__).parents[1] / "cases" / "good" / "k6")
LOCUST = replace(SCRIPTED, generator="locust", external=ExternalLoad("locustio/locust:2.47.0", "load/load.js"))
COMMAND = replace(SCRIPTED, external=ExternalLoad("", "load/load.js", ("no-such-program-of-tailor",)))
OWN = replace(SCRIPTED, generator="tailor", external=ExternalLoad())


def request(application: Application, **given: object) -> TuneRequest:
    return TuneRequest(application.directory, **given)  # type: ignore[arg-type]


def test_every_generator_of_the_vocabulary_can_be_chosen() -> None:
    assert set(EXTERNAL_GENERATORS) < set(GENERATORS.names())


def test_a_command_of_this_machine_needs_the_operators_word() -> None:
    refuse_command(SCRIPTED, Gate())
    refuse_command(OWN, Gate())
    with pytest.raises(InputError, match=r"k6 without an image .* where TAILOR_ALLOW names k6:load"):
        refuse_command(COMMAND, Gate())
    refuse_command(COMMAND, Gate(allowed=("k6:load",)))
    [about, refused, absent] = external_loads([COMMAND], ())
    assert (about.state, refused.state, absent.state) == ("ok", "missing", "missing")
    assert refused.remedy == "load.image, or TAILOR_ALLOW=k6:load"
    assert absent.found == "no-such-program-of-tailor is not in PATH"
    assert len(list(external_loads([COMMAND], ("k6:load",)))) == 2


def test_a_closed_loop_is_said_in_one_line() -> None:
    [finding] = external_loads([LOCUST, OWN], ())
    assert finding.state == "limited"
    assert "closed loop: each request waits for the reply" in finding.found
    assert "Tene, How NOT to Measure Latency" in finding.found
    assert "\n" not in finding.found
    assert list(loop_notes(LOCUST)) == [f"locust: {finding.found}"]
    assert list(loop_notes(SCRIPTED)) == []
    assert generator_images([LOCUST, COMMAND]) == {"locustio/locust:2.47.0"}
    assert generator_images([]) == generator_images([OWN]) == {GENERATOR}


def test_a_rate_that_nobody_keeps_is_refused() -> None:
    with pytest.raises(InputError, match="locust sends requests when replies came, at no rate"):
        check_request(request(LOCUST, rates=(10.0, 20.0)), LOCUST)
    check_request(request(SCRIPTED, rates=(10.0, 20.0)), SCRIPTED)


def test_without_root_spans_there_is_no_critical_path() -> None:
    with pytest.raises(InputError, match="k6 is driven by k6, untraced, so there is no critical path"):
        check_request(request(SCRIPTED, reduce="critical-path"), SCRIPTED)
    space = search_space(SCRIPTED, load_service_types(), cores=2, memory_mib=4096)
    plans = {name: study_plan(request(app), app, space) for name, app in (("k6", SCRIPTED), ("locust", LOCUST))}
    assert {name: (plan.trace, plan.loop) for name, plan in plans.items()} == {
        "k6": (False, "open"), "locust": (False, "closed"),
    }  # fmt: skip
    assert study_plan(request(OWN), OWN, space).trace


def test_an_objective_of_the_request_goes_before_the_applications() -> None:
    space = search_space(LOCUST, load_service_types(), cores=2, memory_mib=4096)
    for name, term in (("throughput", Term("throughput", -1.0)), ("median", Term("p50")), ("p99.9", Term("p99.9"))):
        check_request(request(LOCUST, objective=name), LOCUST)
        plan = study_plan(request(LOCUST, objective=name), LOCUST, space)
        assert planned(LOCUST, plan).objective.terms == (term,)
    assert planned(LOCUST, study_plan(request(LOCUST), LOCUST, space)).objective == LOCUST.objective
    with pytest.raises(FieldError, match=r"found 'speed'; allowed: mean, median"):
        check_request(request(LOCUST, objective="speed"), LOCUST)
    with pytest.raises(InputError, match=r"throughput: k6 sends requests at the workload's rate"):
        check_request(request(SCRIPTED, objective="throughput"), SCRIPTED)
    falling = replace(SCRIPTED, objective=replace(SCRIPTED.objective, terms=(Term("throughput", -1.0),)))
    check_request(request(falling, rates=(10.0, 20.0), objective="p99"), falling)


def test_throughput_is_that_of_the_closed_loop_which_an_application_names(tmp_path: Path) -> None:
    tailor, _ = pretend_tailor(tmp_path, PretendMachine(VirtualClock(), lambda configuration: 5.0))
    asked = TuneRequest(KEY_VALUE, objective="throughput")
    study = tailor.studies.prepared(asked)
    assert (study.directory, study.plan.loop, study.plan.objective) == (
        KEY_VALUE / "throughput",
        "closed",
        "throughput",
    )
    assert tailor.studies.prepared(replace(asked, objective="p99")).directory == KEY_VALUE
    tailor.close()
