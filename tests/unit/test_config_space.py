"""The search space of an application: its parameters, ranges, conditions and constraints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from framework.config.application import load_application
from framework.config.configuration_file import load_configuration
from framework.config.knowledge import load_service_types
from framework.config.space import search_space
from framework.errors import InputError, UnknownName
from framework.model import Application, ServiceType
from optimizer.analysis.changes import RISK, RISKS
from optimizer.space import Condition, Predicate, SearchSpace

GOOD = Path(__file__).parents[1] / "cases" / "good"
TYPES = load_service_types()
SHOP = load_application(GOOD / "shop")


def space(
    application: Application = SHOP,
    *,
    cores: int = 4,
    only: Iterable[str] = (),
    allow_weaker: Iterable[str] = (),
    without: Iterable[str] = (),
) -> SearchSpace:
    return search_space(
        application, TYPES, cores=cores, memory_mib=8192, only=only, allow_weaker=allow_weaker, without=without
    )


def test_names_groups_and_ranges() -> None:
    whole = space()
    assert tuple(whole.groups) == ("web", "orders", "orders-cache", "sessions", "orders-db", "catalogue-db")
    memory = whole["orders-cache.memory_mib"]
    assert (memory.low, memory.high, memory.default, memory.scale, memory.group) == (
        16,
        2048,
        64,
        "log",
        "orders-cache",
    )
    assert whole.default()["web.worker_processes"] == 4


def test_fixed_and_untuned_are_left_out() -> None:
    whole = space()
    assert "orders.fanout_workers" not in whole, "left alone"
    assert "sessions.maxmemory_policy" not in whole, "held at a value"
    assert "mailer" not in whole.groups
    assert "jaeger" not in whole.groups


def test_what_weakens_is_tuned_only_by_name() -> None:
    assert "orders-db.synchronous_commit" not in space()
    assert "orders-db.synchronous_commit" in space(allow_weaker=["synchronous_commit"])
    assert "orders-db.synchronous_commit" in space(allow_weaker=["orders-db.synchronous_commit"])
    with pytest.raises(UnknownName, match=r"jit.*known: .*orders-db.synchronous_commit"):
        space(allow_weaker=["jit"])


def test_risks_are_attributes_of_the_parameters() -> None:
    whole = space(allow_weaker=["synchronous_commit"])
    risks = {name: RISKS[int(whole[name].attributes.get(RISK, 0))] for name in whole.names}
    assert risks["orders-db.synchronous_commit"] == "data"
    assert risks["orders-db.work_mem_kib"] == risks["orders-cache.memory_mib"] == "memory"
    assert risks["orders-cache.threads"] == risks["orders-db.jit"] == "none"


def test_only_and_without() -> None:
    assert set(space(only=["orders-cache"]).groups) == {"orders-cache"}
    assert space(only=["orders-cache.threads", "web"], without=["web.multi_accept"]).names[-1] == "orders-cache.threads"
    assert "web.multi_accept" not in space(without=["web.multi_accept"])
    for name in ("cache", "jaeger", "orders-cache.mem"):
        with pytest.raises(UnknownName):
            space(only=[name])
    with pytest.raises(InputError, match="nothing is left to tune"):
        space(only=["orders-cache"], without=["orders-cache"])


def test_one_value_is_nothing_to_tune() -> None:
    types = dict(TYPES)
    threads = next(p for p in TYPES["redis"].parameters if p.name == "io_threads")
    others = tuple(parameter for parameter in TYPES["redis"].parameters if parameter is not threads)
    types["redis"] = replace(TYPES["redis"], parameters=(replace(threads, high="host.cores"), *others))
    whole = search_space(SHOP, types, cores=1, memory_mib=8192, only=["sessions"])
    assert "sessions.io_threads" not in whole


def test_the_image_s_version_decides() -> None:
    services = dict(SHOP.compose["services"])
    services["sessions"] = {**services["sessions"], "image": "redis:6.2"}
    older = replace(SHOP, compose={**SHOP.compose, "services": services})
    assert "sessions.zset_max_listpack_entries" in space()
    assert "sessions.zset_max_listpack_entries" not in space(older)


def test_unknown_types_and_fixed_parameters() -> None:
    services = [
        replace(service, type="memcachd") if service.name == "orders-cache" else service for service in SHOP.services
    ]
    with pytest.raises(UnknownName, match="memcachd"):
        space(replace(SHOP, services=tuple(services)))
    services = [
        replace(service, fixed={"memory": 3}) if service.name == "orders-cache" else service
        for service in SHOP.services
    ]
    with pytest.raises(UnknownName, match=r"orders-cache.*'memory'"):
        space(replace(SHOP, services=tuple(services)))


def test_a_partial_configuration_is_completed_by_defaults() -> None:
    configuration = load_configuration(GOOD / "shop" / "configurations" / "tuned.yaml", space())
    assert configuration["orders-db.jit"] is False
    assert configuration["orders-cache.threads"] == 4
    assert set(configuration) == set(space())


# ---------------------------------------------------------------------- special values, conditions, constraints


def with_conditions() -> dict[str, ServiceType]:
    """Give memcached a time-out that may be off, and a parameter that counts only while the time-out is on."""
    [threads] = [parameter for parameter in TYPES["memcached"].parameters if parameter.name == "threads"]
    idle = replace(threads, name="idle_s", default=0, low=10, high=600, scale="log", special=(0,))
    warn = replace(threads, name="warn_s", default=5, low=1, high=9, condition=Condition("idle_s", low=1))
    return {**TYPES, "memcached": replace(TYPES["memcached"], parameters=(threads, idle, warn))}


def test_special_values_and_conditions_reach_the_space() -> None:
    whole = search_space(SHOP, with_conditions(), cores=4, memory_mib=8192, only=["orders-cache"])
    assert whole["orders-cache.idle_s"].special == (0,)
    assert whole["orders-cache.warn_s"].condition == Condition("orders-cache.idle_s", low=1)
    assert whole.inactive(whole.default()) == {"orders-cache.warn_s"}


def test_what_a_fixed_parameter_makes_meaningless_is_not_tuned() -> None:
    for value, tuned in ((0, False), (30, True), (5, True)):  # 5 lies outside what would be tuned
        services = tuple(
            replace(service, fixed={"idle_s": value}) if service.name == "orders-cache" else service
            for service in SHOP.services
        )
        application = replace(SHOP, services=services)
        chosen = search_space(application, with_conditions(), cores=4, memory_mib=8192, only=["orders-cache"])
        assert ("orders-cache.warn_s" in chosen) is tuned


def test_constraints_of_the_application_hold_with_what_is_not_tuned() -> None:
    limited = replace(SHOP, constraints=(Predicate("{orders-cache.threads} + {sessions.io_threads} <= 6"),))
    names = {name.partition(".")[0]: name for name in space().names if "threads" in name}
    assert {"orders-cache", "sessions"} <= names.keys()
    whole = space(limited)
    assert not whole.is_feasible({**whole.default(), "orders-cache.threads": 6})
    part = space(limited, only=["orders-cache"])
    assert not part.is_feasible({**part.default(), "orders-cache.threads": 6})
    assert part.is_feasible({**part.default(), "orders-cache.threads": 5})
    assert not space(limited, only=["web"]).constraints
    with pytest.raises(UnknownName, match=r"orders-cache\.thread"):
        space(replace(SHOP, constraints=(Predicate("{orders-cache.thread} <= 6"),)))
