"""Events of a study: each is shown, and the document that the store keeps of each is public and does not change."""

from __future__ import annotations

import io
import json
import re
import typing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from framework.cli.machine import rate_line
from framework.cli.placement import _watching as profile_watch
from framework.cli.progress import SILENT, StudyProgress
from framework.model import Estimate, Step, StudyState, Sweep, Trial, TrialState, events
from framework.model.decisions import (
    ExpectedChange,
    ModelledPoint,
    Reduction,
    SearchEnd,
    SmallRecommendation,
    Thresholds,
)
from framework.model.documents import encode
from framework.model.events import (
    PLAN_CHANGED,
    BudgetFrozen,
    DatasetStepStarted,
    Event,
    GainExpected,
    NotesGiven,
    OnTestbed,
    PhaseStarted,
    PhaseStepStarted,
    PriorComputed,
    ProfileStepStarted,
    ProfileWindowStarted,
    RateMeasured,
    RepetitionFinished,
    ReplayDiverged,
    RequestsPrepared,
    SearchStopped,
    SmallerFound,
    SmallRecommended,
    SpaceEdited,
    SpaceReduced,
    StateChanged,
    StoredEvent,
    SweepFinished,
    TestbedLost,
    TrialFinished,
    TrialStarted,
    TwinAsked,
    WaitStarted,
    WarmupLengthened,
)
from framework.testing.examples import PLAN, measurement
from optimizer.space import Configuration

FAILED = Trial("s", 3, "search", Configuration({"cache.size": 3}), TrialState.FAILED, reason="no start")
VALUED = replace(FAILED, state=TrialState.COMPLETED, value=12.5, standard_error=0.02, reason="")
STEP = Step(50.0, None, False, "too slow")
CUT = Reduction("critical-path", Thresholds(), ("cache",), (), {}, 3, 8)
POINTS = (ModelledPoint({}, 0.0), ModelledPoint({}, 0.1))
SMALL = SmallRecommendation(
    {"cache.size": 9},
    {"cache.size": 9},
    (
        ExpectedChange(("cache.size",), 9, -0.1, 0.02),
        ExpectedChange(("cache.policy",), "lru", -0.1, 0.02, "data"),
    ),
)
DISTURBED = replace(measurement(), invalid=("stolen CPU",))

END = SearchEnd(12, 0.003, 0.019)

EXAMPLES: tuple[Event, ...] = (
    NotesGiven(("ports are left out",)),
    WarmupLengthened(12.0),
    BudgetFrozen(7),
    SearchStopped(END),
    GainExpected(0.003, 0.019),
    SpaceReduced(CUT),
    PriorComputed(POINTS),
    SmallRecommended(SMALL),
    SmallerFound(({},)),
    DatasetStepStarted("copying data"),
    TwinAsked(3, 9),
    WaitStarted("the engine is away", 5.0),
    TrialStarted(3, "search"),
    TrialFinished(VALUED),
    RepetitionFinished(3, replace(measurement(), invalid=())),
    PhaseStarted("load"),
    PhaseStepStarted("deploy", "start"),
    OnTestbed("twin:1", TrialStarted(3, "search")),
    TestbedLost("twin:1", "no answer"),
    RateMeasured(STEP),
    ProfileStepStarted("deploying"),
    ProfileWindowStarted(1, 8, "cache", "l3"),
)

STORED: tuple[tuple[StoredEvent, str, dict[str, Any]], ...] = (
    (StateChanged(StudyState.PAUSED, "interrupted"), "state", {"state": "paused", "message": "interrupted"}),
    (NotesGiven(("one", "two")), "notes", {"notes": ["one", "two"]}),
    (WarmupLengthened(12.0), "plan changed", {"why": "warm-up", "warmup_s": 12.0}),
    (RequestsPrepared(2), "requests prepared", {"parts": 2}),
    (BudgetFrozen(7), "plan changed", {"why": "time limit", "iterations": 7}),
    (SearchStopped(END), "plan changed", {"why": "gain", "trials": 12, "gain": 0.003, "noise": 0.019}),
    (SpaceReduced(CUT), "plan changed", {"why": "reduction"}),
    (PriorComputed(POINTS), "plan changed", {"why": "prior"}),
    (SmallRecommended(SMALL), "plan changed", {"why": "small"}),
    (SmallerFound(({},)), "plan changed", {"why": "minimal"}),
    (SpaceEdited(4, 9), "space edited", {"after": 4, "parameters": 9}),
    (ReplayDiverged(3), "replay diverged", {"trial": 3}),
    (TestbedLost("twin:1", "no answer"), "testbed lost", {"testbed": "twin:1", "reason": "no answer"}),
    (TrialStarted(3, "search"), "trial begins", {"number": 3, "purpose": "search"}),
    (
        TrialFinished(FAILED),
        "trial ends",
        {"number": 3, "purpose": "search", "state": "failed", "value": None, "reason": "no start"},
    ),
    (
        SweepFinished(Sweep("shop", 50.0, (STEP,), None, True, None, "no rate held")),
        "sweep",
        {
            "sweep": {
                "application": "shop",
                "limit_ms": 50.0,
                "steps": [{"rate_rps": 50.0, "p95": None, "holds": False, "reason": "too slow"}],
                "knee_rps": None,
                "passed": True,
                "proposed_rps": None,
                "statement": "no rate held",
                "modelled": False,
                "stopped": False,
            }
        },
    ),
)


class Shown:
    """A progress display with its output: the text that it printed, and the columns of its bar."""

    def __init__(self) -> None:
        self._printed = io.StringIO()
        self.display = StudyProgress(Console(file=self._printed, width=200), PLAN)

    def now(self) -> tuple[str, str, float]:
        [task] = self.display._bar.tasks
        return self._printed.getvalue(), json.dumps([task.fields, task.total]), task.completed

    def printed_of(self, event: Event) -> str:
        before = len(self._printed.getvalue())
        self.display(event)
        return self._printed.getvalue()[before:]


def test_every_declared_event_is_watched_or_stored_and_has_an_example() -> None:
    declared = {kind for kind in vars(events).values() if isinstance(kind, type) and kind.__module__ == events.__name__}
    stored = {kind for kind in declared if issubclass(kind, StoredEvent)} - {StoredEvent}
    assert declared - stored - {StoredEvent} <= set(typing.get_args(Event))
    assert [type(event) for event in EXAMPLES] == list(typing.get_args(Event))
    assert {type(event) for event, _, _ in STORED} == stored


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_the_progress_display_shows_every_event_that_is_not_silent(event: Event) -> None:
    shown = Shown()
    before = shown.now()
    shown.display(event)
    assert (shown.now() == before) is isinstance(event, SILENT)


def test_other_processes_on_the_machine_are_said_once() -> None:
    [example] = [event for event in EXAMPLES if isinstance(event, RepetitionFinished)]
    shown = Shown()
    quiet, loaded = (
        replace(
            example, measurement=replace(example.measurement, invalid=(), cpu={"application": 0.3, "others": share})
        )
        for share in (0.05, 0.31)
    )
    assert shown.printed_of(quiet) == ""
    assert "other processes took 31% of this machine's CPU time" in shown.printed_of(loaded)
    assert shown.printed_of(loaded) == ""


def test_an_event_that_the_progress_display_does_not_know_is_an_error() -> None:
    with pytest.raises(AssertionError):
        Shown().display(ReplayDiverged(3))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (NotesGiven(("ports [80] are left out",)), "ports [80] are left out\n"),
        (WarmupLengthened(12.0), "warm-up: 12 s, because the default takes so long to settle\n"),
        (BudgetFrozen(7), "time limit: 7 configurations\n"),
        (
            SearchStopped(END),
            "the search stops after 12 configurations: another trial is expected to gain 0.3 %, less than a quarter "
            "of the noise of the verdict, 1.9 %\n",
        ),
        (GainExpected(0.003, 0.019), ""),
        (SpaceReduced(CUT), "reduction critical-path: 3 of 8 parameters are tuned\n"),
        (
            SmallRecommended(SMALL),
            "changes that the model of the trials misses: 2, 1 of them risky: each has to show a gain of its own\n",
        ),
        (
            SmallRecommended(replace(SMALL, changes=SMALL.changes[:1])),
            "changes that the model of the trials misses: 1\n",
        ),
        (SmallerFound(()), "smaller recommendations to try: none\n"),
        (SmallerFound(({}, {})), "smaller recommendations to try: 2\n"),
        (PriorComputed(POINTS), "the twin was asked: its best has 1.00 times the default's p95, modelled\n"),
        (WaitStarted("the engine is away", 5.0), "waiting 5 s: the engine is away\n"),
        (TestbedLost("twin:1", "no [answer]"), "testbed twin:1 is lost: no [answer]\n"),
        (OnTestbed("twin:1", TrialFinished(VALUED)), "trial 3 (search): 12.50 +-2 % best so far\n"),
        (
            OnTestbed("twin:1", RepetitionFinished(3, DISTURBED)),
            "twin:1: trial 3: repetition 1 does not count: stolen CPU\n",
        ),
        (OnTestbed("twin:1", WaitStarted("no answer", 5.0)), "twin:1 waits 5 s: no answer\n"),
        (RepetitionFinished(3, DISTURBED), ": repetition 1 does not count: stolen CPU\n"),
        (TrialFinished(VALUED), "trial 3 (search): 12.50 +-2 % best so far\n"),
        (TrialFinished(FAILED), "trial 3 (search): failed no start\n"),
        (PhaseStarted("load"), ""),
    ],
)
def test_the_lines_of_a_log(event: Event, line: str) -> None:
    assert Shown().printed_of(event) == line


def test_the_lines_of_a_profile_in_a_log() -> None:
    printed = io.StringIO()
    with Progress(console=Console(file=printed, width=200)) as bar:
        watch = profile_watch(bar)
        watch(ProfileStepStarted("deploying"))
        watch(ProfileWindowStarted(1, 4, "cache", ""))
        watch(ProfileWindowStarted(2, 4, "cache", "l3"))
        assert [(task.description, task.completed, task.total) for task in bar.tasks] == [("cache beside l3", 1, 4)]
        watch(ProfileWindowStarted(3, 4, "front", ""))
        assert bar.tasks[0].description == "front alone"
    said = [line for line in printed.getvalue().splitlines() if line.startswith("profile:")]
    assert said == ["profile: window 1 of 4, cache", "profile: window 3 of 4, front"]


def test_the_lines_of_a_sweep() -> None:
    assert rate_line(STEP) == "     50 requests/s: too slow"
    held = replace(STEP, p95=Estimate(12.346, 12.0, 13.0, 9), holds=True, reason="")
    assert rate_line(held) == "     50 requests/s: p95 12.35 ms"


@pytest.mark.parametrize(("event", "kind", "payload"), STORED, ids=[kind for _, kind, _ in STORED])
def test_kinds_and_payloads_of_stored_events_stay(event: StoredEvent, kind: str, payload: dict[str, Any]) -> None:
    assert event.kind == kind
    assert len(kind) <= 32, "an import refuses a longer one"
    assert json.dumps(encode(event.payload())) == json.dumps(payload), "with its keys in this order"


def test_the_reference_lists_every_stored_event_with_its_keys() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "events.md"
    rows = [line.split("|")[1:3] for line in page.read_text().splitlines() if line.startswith("| `")]
    listed = {kind.strip().strip("`"): re.findall(r"`(\w+)`", keys) for kind, keys in rows}
    open_ended = {"plan changed": ["why"]}  # the other keys are fields of the plan
    assert listed == {kind: open_ended.get(kind, list(payload)) for _, kind, payload in STORED}


def test_a_kind_tells_stored_events_apart_but_decisions_which_their_reason_does() -> None:
    told = [(kind, payload["why"] if kind == PLAN_CHANGED else "") for _, kind, payload in STORED]
    assert len(set(told)) == len(told)


def test_of_several_testbeds_only_told_values_are_compared() -> None:
    shown = Shown()
    shown.display = StudyProgress(shown.display._console, replace(PLAN, testbeds=("twin:1", "twin:2")))
    default = replace(VALUED, purpose="default", value=10.0, told_value=10.0, testbed="twin:1")
    slower_machine = replace(VALUED, number=4, value=12.0, told_value=8.0, testbed="twin:2")
    faster_machine = replace(VALUED, number=5, value=6.0, told_value=11.0, testbed="twin:1")
    shown.printed_of(OnTestbed("twin:1", TrialFinished(default)))
    first = shown.printed_of(OnTestbed("twin:2", TrialFinished(slower_machine)))
    assert first == "trial 4 (search) on twin:2: 12.00 +-2 % best so far\n"
    assert "best so far" not in shown.printed_of(OnTestbed("twin:1", TrialFinished(faster_machine)))
