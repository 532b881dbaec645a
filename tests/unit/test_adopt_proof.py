"""The proof of a proposal: which other values are tried, and what grades come of them."""

from __future__ import annotations

from dataclasses import replace

from framework.adopt.grades import baseline_of, graded, other_value, others_of, rounds_of
from framework.adopt.tries import tried
from framework.errors import TrialFailed
from framework.model import Told
from framework.testing.examples import study
from optimizer.space import Condition, Configuration, Parameter, SearchSpace

SPACE = SearchSpace([
    Parameter("a.n", "integer", 10, low=1, high=100, group="a"),
    Parameter("a.off", "integer", 0, low=64, high=1024, special=(0,), group="a"),
    Parameter("a.flag", "boolean", False, group="a"),
    Parameter("b.kind", "categorical", "x", choices=("x", "y"), group="b"),
    Parameter("b.one", "real", 1.0, low=1.0, high=1.5, group="b"),
])  # fmt: skip


def test_every_parameter_gets_another_value() -> None:
    other = others_of(SPACE)
    assert all(other[name] != value for name, value in SPACE.default().items())
    assert other["a.n"] in range(15, 26)
    assert other_value(SPACE["b.kind"]) == "y"


def test_values_that_have_no_meaning_beside_others_are_tried_in_a_further_round() -> None:
    space = SearchSpace([
        Parameter("j.gc", "categorical", "G1", choices=("G1", "Serial", "Z")),
        Parameter("j.pause", "integer", 200, low=10, high=1000, condition=Condition("j.gc", ("G1",))),
        Parameter("j.virtual", "boolean", False),
        Parameter("j.threads", "integer", 8, low=1, high=64, condition=Condition("j.virtual", (False,))),
        Parameter("j.cache", "boolean", False),
        Parameter("j.cached", "integer", 10, low=1, high=64, condition=Condition("j.cache", (True,))),
        Parameter("j.shards", "integer", 2, low=1, high=8, condition=Condition("j.cached", low=30)),
        Parameter("j.z", "integer", 2, low=1, high=8, condition=Condition("j.gc", ("Z",))),
    ])  # fmt: skip
    rounds, default = rounds_of(space), space.default()
    assert {name for other in rounds for name in space if other[name] != default[name]} == set(space)
    assert len(rounds) <= 3
    assert rounds_of(SPACE) == [others_of(SPACE)]


def test_values_are_tried_together_and_singly_only_where_they_do_not_start() -> None:
    space = SearchSpace([
        Parameter("j.gc", "categorical", "G1", choices=("G1", "Serial")),
        Parameter("j.pause", "integer", 200, low=10, high=1000, condition=Condition("j.gc", ("G1",))),
        Parameter("k.bad", "integer", 8, low=1, high=64),
        Parameter("k.good", "integer", 8, low=1, high=64),
    ])  # fmt: skip
    deployed: list[Configuration] = []

    def deploy(other: Configuration) -> dict[str, Told]:
        deployed.append(other)
        if other["k.bad"] != 8:
            raise TrialFailed("k does not start\nits log")
        return {name: Told(value, "", seen=True) for name, value in other.items()}

    knobs = {knob.name: knob for knob in tried(deploy, space, lambda text: None)}
    grades = {name: knob.grade for name, knob in knobs.items()}
    assert grades == {"j.gc": "proven", "j.pause": "proven", "k.bad": "refused", "k.good": "proven"}
    assert knobs["k.bad"].reason == "k does not start; its log"
    assert len(deployed) == 6, "all; j; k; k.bad; k.good; then what gc leaves no meaning"
    assert deployed[-1] == {**space.default(), "j.pause": deployed[-1]["j.pause"]}


def test_grades() -> None:
    default = SPACE.default()
    other = Configuration({**default, "a.n": 20, "a.flag": True, "b.kind": "y", "b.one": 1.5})
    told = {
        "a.n": Told(20, "", seen=True),
        "a.flag": Told(False, "", seen=True),
        "b.kind": Told(None, "no shell", seen=True),
        "b.one": Told(None, "no shell", seen=False),
    }
    grades = {knob.name: knob.grade for knob in graded(default, other, told)}
    assert grades == {
        "a.n": "proven", "a.flag": "ineffective", "b.kind": "passed", "b.one": "ineffective", "a.off": "not tried",
    }  # fmt: skip


def test_what_the_server_has_today_is_the_baseline() -> None:
    told = {
        "a.n": Told(50, "", seen=False),
        "a.flag": Told(False, "", seen=False),
        "b.kind": Told(None, "gone", seen=False),
        "b.one": Told(1.0001, "", seen=False),
    }
    assert baseline_of(SPACE, told) == {"a.n": 50}


def test_a_study_has_the_name_of_the_application_and_not_of_the_directory_that_init_makes() -> None:
    for directory, name in (("/home/me/shop/tailor", "shop"), ("/home/me/shop", "shop")):
        assert replace(study(), plan=replace(study().plan, application=directory)).application_name == name
