"""Values that look like secrets are removed from the kept copy of a deployment."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.compose.secrets import REMOVED, documents_artefact, text_without_secrets, without_secrets


@pytest.mark.parametrize(
    "name",
    ["POSTGRES_PASSWORD", "db_passwd", "PGPASSWORD", "API_KEY", "apikey", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN",
     "Authorization", "requirepass", "masterauth", "SESSION_COOKIE", "private-key".replace("-", "_")],
)  # fmt: skip
def test_values_are_removed_by_their_names(name: str) -> None:
    compose = {"services": {"db": {"environment": {name: "hunter2", "TZ": "UTC"}}}}
    assert without_secrets(compose) == {"services": {"db": {"environment": {name: REMOVED, "TZ": "UTC"}}}}
    assert without_secrets({"environment": [f"{name}=hunter2"]}) == {"environment": [f"{name}={REMOVED}"]}
    assert text_without_secrets(f"# redis\n{name} hunter2\nport 1\n") == f"# redis\n{name} {REMOVED}\nport 1\n"


@pytest.mark.parametrize(
    "harmless",
    [{"POSTGRES_HOST_AUTH_METHOD": "trust"}, {"image": "a/b:1"}, {"PASSWORD": "${DB_PASSWORD}"}, {"keepalive": 65},
     {"command": ["postgres", "-c", "shared_buffers=1GB"]}, {"TARGET": "http://nginx:8080/a@b"}],
)  # fmt: skip
def test_the_rest_stays(harmless: dict[str, object]) -> None:
    assert without_secrets(harmless) == harmless


def test_server_files_stay_as_they_are() -> None:
    text = "server_tokens off;\nkeepalive_timeout 65;\nmaxmemory 64mb\nlisten_addresses = '*'\n"
    assert text_without_secrets(text) == text


def test_a_password_in_an_address_goes() -> None:
    kept = without_secrets({"DATABASE_URL": "postgres://tailor:hunter2@db:5432/x", "args": ["--db=redis://:pw@r/0"]})
    assert kept == {"DATABASE_URL": f"postgres://tailor:{REMOVED}@db:5432/x", "args": [f"--db=redis://:{REMOVED}@r/0"]}


def test_what_is_kept_of_a_deployment() -> None:
    kept = json.loads(
        documents_artefact({"local": {"environment": {"PASSWORD": "hunter2"}}}, {"a": "password hunter2"})
    )
    assert "hunter2" not in json.dumps(kept)
    assert kept["files"] == {"a": f"password {REMOVED}"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(document=JSON)
def test_removing_secrets_twice_is_removing_them_once(document: object) -> None:
    once = without_secrets(document)
    assert without_secrets(once) == once
