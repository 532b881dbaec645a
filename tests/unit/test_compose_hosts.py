"""Several hosts: each host's document is complete and names nothing of another host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.compose import as_designed, render
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.errors import InputError, UnknownName
from framework.model import Application, Deployment, Placement
from optimizer.space import Configuration

TYPES = resolved(load_service_types(), cores=4, memory_mib=8192)
SHOP = load_application(Path(__file__).parents[1] / "cases" / "good" / "shop")


def shop(application: Application = SHOP, placement: Placement | None = None, **options: Any) -> Deployment:
    options = {"network": "overlay", **options}
    return render(
        application,
        TYPES,
        Configuration(),
        project="p",
        labels={},
        placement=placement or as_designed(application),
        **options,
    )


def changed(service: str, **content: Any) -> Application:
    services = dict(SHOP.compose["services"])
    services[service] = {**services[service], **content}
    return replace(SHOP, compose={**SHOP.compose, "services": services})


def test_each_service_is_on_its_host_once() -> None:
    documents = shop().documents
    assert tuple(documents) == SHOP.hosts
    where = {name: host for host, document in documents.items() for name in document["services"]}
    assert where == {service.name: service.host for service in SHOP.services}


def test_start_order_holds_on_a_host_only() -> None:
    documents = shop().documents
    assert "depends_on" not in documents["frontend"]["services"]["web"], "orders is elsewhere"
    assert documents["logic"]["services"]["orders"]["depends_on"] == {"mailer": {"condition": "service_started"}}


def test_volumes_are_where_they_are_used() -> None:
    documents = shop().documents
    assert set(documents["backend"]["volumes"]) == {"orders", "catalogue"}
    assert all("volumes" not in documents[host] for host in ("frontend", "logic", "monitoring"))
    one_host = shop(placement=Placement({service.name: "one" for service in SHOP.services}), network="local")
    assert one_host.documents["one"]["volumes"] == SHOP.compose["volumes"]


def test_networks_are_overlays_that_exist_before() -> None:
    application = replace(
        SHOP,
        compose={**SHOP.compose, "networks": {"back": None, "named": {"name": "mine"}, "given": {"external": True}}},
    )
    for document in shop(application).documents.values():
        assert document["networks"] == {
            "default": {"name": "p_default", "external": True},
            "back": {"name": "p_back", "external": True},
            "named": {"name": "mine", "external": True},
            "given": {"external": True},
        }


def test_local_networks_do_not_reach_other_hosts() -> None:
    with pytest.raises(InputError, match="need network 'overlay'"):
        shop(network="local")


@pytest.mark.parametrize(
    "content",
    [{"network_mode": "service:web"}, {"pid": "service:web"}, {"links": ["web:w"]}, {"volumes_from": ["web:ro"]}],
)
def test_what_needs_one_host(content: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"mailer: .*web.* on the same host"):
        shop(changed("mailer", **content))
    assert shop(changed("seed", **content)).documents["frontend"]["services"]["seed"].items() >= content.items()


def test_a_placement_names_each_service_once_and_no_other() -> None:
    hosts = dict(as_designed(SHOP).hosts)
    with pytest.raises(UnknownName, match="cashier"):
        shop(placement=Placement({**hosts, "cashier": "logic"}))
    with pytest.raises(UnknownName, match="cashier"):
        shop(placement=Placement(hosts, {"cashier": "0"}))
    del hosts["mailer"]
    with pytest.raises(InputError, match="mailer has no host"):
        shop(placement=Placement(hosts))


def test_secrets_and_configs_go_with_their_services() -> None:
    compose = {
        **SHOP.compose,
        "secrets": {"key": {"file": "./key"}, "other": {"file": "/abs"}},
        "configs": {"c": {"file": "c"}},
    }
    services = dict(SHOP.compose["services"])
    services["mailer"] = {**services["mailer"], "secrets": ["key"], "configs": [{"source": "c", "target": "/c"}]}
    documents = shop(replace(SHOP, compose={**compose, "services": services})).documents
    assert documents["logic"]["secrets"] == {"key": {"file": f"{SHOP.directory}/key"}}
    assert documents["logic"]["configs"] == {"c": {"file": f"{SHOP.directory}/c"}}
    assert "secrets" not in documents["backend"]
