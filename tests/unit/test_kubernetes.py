"""Kubernetes manifests of compose documents: valid by the API's schemas, and nothing left out in silence."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from framework.compose.allow_list import RULES
from framework.kubernetes import Manifests, Sources, manifests_of
from framework.kubernetes.amounts import cpus, memory, seconds
from framework.kubernetes.names import is_label, label, literal
from framework.kubernetes.unmatched import CARRIED, REFUSED, SAID, WITHOUT_EFFECT
from tests.kubernetes_manifests import objects, problems

APPS = Path(__file__).parents[2] / "apps"
OURS = sorted(path.parent.name for path in APPS.glob("*/application.yaml"))
CORPUS = Path(__file__).parents[1] / "cases" / "corpus"


def of(compose: str, sources: Sources | None = None, **more: Any) -> Manifests:
    return manifests_of("shop", YAML(typ="safe").load(compose), sources or Sources(), **more)


def one(manifests: Manifests, kind: str, name: str) -> Mapping[str, Any]:
    (item,) = [item for item in objects(manifests) if (item["kind"], item["metadata"]["name"]) == (kind, name)]
    return item


def pod(manifests: Manifests, name: str) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = one(manifests, "Deployment", name)["spec"]["template"]["spec"]
    return spec


def container(manifests: Manifests, name: str) -> Mapping[str, Any]:
    (body,) = pod(manifests, name)["containers"]
    assert body["name"] == name
    return dict(body)


def notes(manifests: Manifests, service: str, key: str) -> list[str]:
    return [note.text for note in manifests.notes if (note.service, note.key) == (service, key)]


def test_command_and_entry_point_change_their_names() -> None:
    made = of("services: {web: {image: a, entrypoint: [run], command: server --port 80, working_dir: /srv}}")
    web = container(made, "web")
    assert (web["command"], web["args"], web["workingDir"]) == (["run"], ["server", "--port", "80"], "/srv")
    assert "command" not in container(of("services: {web: {image: a, command: x}}"), "web")
    assert [n.key for n in of("services: {web: {image: a, entrypoint: []}}").refused] == ["entrypoint"]


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Fill in ``$(NAME)`` as the kubelet does; two dollars are one, and unknown names stay."""
    result, at = "", 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            result, at = result + text[at], at + 1
        elif text[at + 1] == "$":
            result, at = result + "$", at + 2
        elif text[at + 1] == "(" and (end := text.find(")", at)) >= 0:
            name = text[at + 2 : end]
            result, at = result + variables.get(name, f"$({name})"), end + 1
        else:
            result, at = result + text[at : at + 2], at + 2
    return result


@given(st.text(alphabet="$()aA ", max_size=12))
@settings(max_examples=500)
def test_the_kubelet_gives_a_container_the_text_that_compose_gives(text: str) -> None:
    assert expanded(literal(text), {"A": "wrong", "a": "wrong", "": "wrong"}) == text


def test_dollars_of_a_shell_reach_it() -> None:
    made = of(
        """services: {web: {image: a, command: [sh, -c, 'echo $$HOME $$(id) $$$$'], environment: {A: '$$(B)'}}}"""
    )
    web = container(made, "web")
    assert expanded(web["args"][2], {"id": "wrong"}) == "echo $HOME $(id) $$"
    assert web["env"] == [{"name": "A", "value": "$$(B)"}]


def test_variables_come_from_files_and_secrets_go_into_a_secret(tmp_path: Path) -> None:
    (tmp_path / "web.env").write_text("# c\nA=1\nB='two words'\nTOKEN_FILE=x\n")
    made = of(f"services: {{web: {{image: a, env_file: {tmp_path}/web.env, environment: [A=2, DB_PASSWORD=p, C]}}}}",
              Sources(roots=(tmp_path,)))  # fmt: skip
    env = {item["name"]: item for item in container(made, "web")["env"]}
    assert env["A"]["value"] == "2"
    assert env["B"]["value"] == "two words"
    assert env["DB_PASSWORD"]["valueFrom"]["secretKeyRef"] == {"name": "web-environment", "key": "DB_PASSWORD"}
    assert one(made, "Secret", "web-environment")["stringData"] == {"DB_PASSWORD": "p"}
    assert notes(made, "web", "environment.C")
    assert problems(objects(made)) == []


def test_a_health_check_is_a_readiness_probe() -> None:
    check = "{test: 'curl -f localhost', interval: 500ms, timeout: 1m30s, retries: 5}"
    made = of(
        f"services: {{web: {{image: a, healthcheck: {check}}}, off: {{image: a, healthcheck: {{test: [NONE]}}}}}}"
    )
    assert container(made, "web")["readinessProbe"] == {
        "exec": {"command": ["/bin/sh", "-c", "curl -f localhost"]},
        "periodSeconds": 1, "timeoutSeconds": 90, "failureThreshold": 5,
    }  # fmt: skip
    assert notes(made, "web", "healthcheck.interval")
    assert "readinessProbe" not in container(made, "off")


def test_resources_rights_and_kernel_settings() -> None:
    made = of("""
services:
  web:
    image: a
    cpus: 1.5
    mem_limit: 512m
    deploy: {resources: {reservations: {cpus: "0.25", memory: 1g}}, replicas: 3}
    user: "1000:2000"
    cap_add: [CAP_NET_ADMIN]
    cap_drop: [ALL]
    read_only: true
    security_opt: ["no-new-privileges:true"]
    sysctls: {net.core.somaxconn: 1024, net.ipv4.tcp_syncookies: 0}
    ulimits: {nofile: 9000}
    cpuset: "0,1"
    stop_grace_period: 1m
    extra_hosts: ["db:10.0.0.1", "other=10.0.0.1"]
    tmpfs: ["/run:size=64m"]
    shm_size: 128m
    volumes: ["data:/data"]
volumes: {data: {}}
""")
    web, spec = container(made, "web"), pod(made, "web")
    assert web["resources"] == {
        "limits": {"cpu": "1500m", "memory": "512Mi"},
        "requests": {"cpu": "250m", "memory": "1Gi"},
    }
    assert web["securityContext"] == {
        "runAsUser": 1000, "runAsGroup": 2000, "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False,
    }  # fmt: skip
    assert {item["name"] for item in spec["securityContext"]["sysctls"]} == {
        "net.core.somaxconn",
        "net.ipv4.tcp_syncookies",
    }
    assert spec["securityContext"]["fsGroup"] == 2000
    assert notes(made, "web", "sysctls.net.core.somaxconn")
    assert not notes(made, "web", "sysctls.net.ipv4.tcp_syncookies")
    assert "nofile" in notes(made, "web", "ulimits")[0]
    assert notes(made, "web", "cpuset")
    assert spec["terminationGracePeriodSeconds"] == 60
    assert spec["hostAliases"] == [{"ip": "10.0.0.1", "hostnames": ["db", "other"]}]
    assert [v["emptyDir"] for v in spec["volumes"] if "emptyDir" in v] == [
        {"medium": "Memory", "sizeLimit": "64Mi"}, {"medium": "Memory", "sizeLimit": "128Mi"}
    ]  # fmt: skip
    assert one(made, "PersistentVolumeClaim", "data")["spec"]["accessModes"] == ["ReadWriteMany"]
    assert one(made, "Deployment", "web")["spec"]["replicas"] == 3
    assert problems(objects(made)) == []


def test_a_service_that_others_wait_for_is_a_job() -> None:
    made = of("""
services:
  migrate: {image: a, command: [migrate], restart: "on-failure:3"}
  web: {image: a, depends_on: {migrate: {condition: service_completed_successfully}}}
""")
    body = one(made, "Job", "migrate")["spec"]
    assert (body["backoffLimit"], body["template"]["spec"]["restartPolicy"]) == (3, "OnFailure")
    assert notes(made, "web", "depends_on")
    assert problems(objects(made)) == []


def test_names_resolve() -> None:
    made = of("""
services:
  web: {image: a, ports: ["8080:80", "127.0.0.1::9000/udp"], networks: {front: {aliases: [shop]}, back: null}}
  api: {image: a, environment: {WEB: "http://web:8081/", NOT: "myweb:1"}, networks: [back]}
networks: {front: {}, back: {}}
""")
    ports = [(p["port"], p["protocol"]) for p in one(made, "Service", "web")["spec"]["ports"]]
    assert ports == [(80, "TCP"), (8081, "TCP"), (9000, "UDP")]
    assert one(made, "Service", "shop")["spec"]["selector"] == one(made, "Service", "web")["spec"]["selector"]
    assert one(made, "Service", "api")["spec"]["clusterIP"] == "None"
    assert pod(made, "api")["enableServiceLinks"] is False
    assert [note for note in made.notes if note.key == "networks"]
    assert problems(objects(made)) == []


def test_a_name_that_is_no_label_is_refused_where_others_use_it_and_said_where_not() -> None:
    used = of("services: {user_db: {image: a}, web: {image: a, environment: {DB: 'user_db:5432'}}}")
    assert [(note.service, note.key) for note in used.refused] == [("user_db", "its name")]
    assert "web addresses it as user_db" in used.refused[0].text
    unused = of("services: {user_db: {image: a}, web: {image: a, environment: {DB: 'old-user_db:5432'}}}")
    assert not unused.refused
    assert unused.names["user_db"] == "user-db"
    both = of("services: {user_db: {image: a}, user-db: {image: a}, User_DB: {image: a}}")
    assert sorted(both.names.values()) == ["user-db", "user-db-2", "user-db-3"]
    assert problems(objects(both)) == []


def test_mounted_files_are_config_maps_and_a_file_inside_a_directory_takes_its_place(tmp_path: Path) -> None:
    (tmp_path / "conf" / "sub").mkdir(parents=True)
    (tmp_path / "conf" / "a.conf").write_text("a\n")
    (tmp_path / "conf" / "sub" / "b.conf").write_text("b\n")
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "x.bin").write_bytes(b"\xff\x00")
    (tmp_path / "secret.conf").write_text("requirepass hunter2\n")
    (tmp_path / "token").write_text("t")
    made = of(f"""
services:
  web:
    image: a
    volumes:
      - {tmp_path}/conf:/etc/web:ro
      - ./files/web/etc-web-a.conf:/etc/web/a.conf:ro
      - {tmp_path}/run.sh:/run.sh
      - {tmp_path}/x.bin:/x.bin:ro
      - {tmp_path}/secret.conf:/secret.conf:ro
    secrets: [token]
    configs: [{{source: c, target: /etc/c}}]
secrets: {{token: {{file: {tmp_path}/token}}}}
configs: {{c: {{content: hello}}}}
""", Sources({"files/web/etc-web-a.conf": "tuned\n"}, (tmp_path,)))  # fmt: skip
    assert one(made, "ConfigMap", "web-etc-web")["data"] == {"a.conf": "tuned\n", "sub--b.conf": "b\n"}
    assert one(made, "ConfigMap", "web-x-bin")["binaryData"] == {"x.bin": base64.b64encode(b"\xff\x00").decode()}
    assert one(made, "Secret", "web-secret-conf")["stringData"] == {"secret.conf": "requirepass hunter2\n"}
    assert one(made, "Secret", "web-run-secrets-token")["stringData"] == {"token": "t"}
    assert one(made, "ConfigMap", "web-etc-c")["data"] == {"c": "hello"}
    mounts = {m["mountPath"]: m for m in container(made, "web")["volumeMounts"]}
    assert "subPath" not in mounts["/etc/web"]
    assert mounts["/run.sh"]["subPath"] == "run.sh"
    (script,) = [v for v in pod(made, "web")["volumes"] if v.get("configMap", {}).get("name") == "web-run-sh"]
    assert script["configMap"]["items"] == [{"key": "run.sh", "path": "run.sh", "mode": 0o755}]
    assert notes(made, "web", "volumes: /run.sh")
    assert made.secret == ("web.yaml",)
    assert not made.refused
    assert problems(objects(made)) == []


def test_a_changed_file_replaces_the_pods(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        made = of("services: {web: {image: a, volumes: ['./files/a:/a:ro']}}", Sources({"files/a": text}))
        found: str = one(made, "Deployment", "web")["spec"]["template"]["metadata"]["annotations"]["tailor/files"]
        return found

    assert digest("1") == digest("1") != digest("2")


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ("volumes: ['/var/run/docker.sock:/var/run/docker.sock']", "volumes: /var/run/docker.sock"),
        ("volumes: ['/etc/passwd:/a:ro']", "volumes: /a"),
        ("network_mode: host", "network_mode"),
        ("pid: host", "pid"),
        ("ipc: 'service:db'", "ipc"),
        ("devices: ['/dev/fuse']", "devices"),
        ("volumes_from: [db]", "volumes_from"),
        ("user: postgres", "user"),
        ("links: ['db:database']", "links: db:database"),
        ("security_opt: ['apparmor:x']", "security_opt: apparmor:x"),
        ("extra_hosts: ['a:host-gateway']", "extra_hosts: a"),
        ("deploy: {mode: global}", "deploy.mode"),
        ("never_heard_of: 1", "never_heard_of"),
        ("environment: {'A B': x}", "environment.A B"),
        ("environment: {A: '${B:?needed}'}", "environment.A"),
        ("mem_limit: many", "services"),
        ("ports: ['x']", "ports"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused_by_its_place(entry: str, key: str) -> None:
    made = of(f"services:\n  web:\n    image: a\n    {entry}\n  db: {{image: a}}\n")
    assert ("web", key) in [(note.service, note.key) for note in made.refused]
    assert problems(objects(made)) == []


def test_links_out_of_the_application_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "other").write_text("private")
    (tmp_path / "ours" / "link").symlink_to(tmp_path / "other")
    for path in ("ours/link", "ours"):
        made = of(f"services: {{web: {{image: a, volumes: ['{tmp_path}/{path}:/a:ro']}}}}",
                  Sources(roots=(tmp_path / "ours",)))  # fmt: skip
        assert [note.key for note in made.refused] == ["volumes: /a"]
        assert "private" not in str(made.files)


def test_directories_that_are_written_or_too_large_are_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "db").write_bytes(b"x")
    (tmp_path / "large").mkdir()
    for name in "ab":
        (tmp_path / "large" / name).write_bytes(b"x" * 600_000)
    volumes = f"['{tmp_path}/data:/data', '{tmp_path}/large:/large:ro', '{tmp_path}/none:/none']"
    made = of(f"services: {{web: {{image: a, volumes: {volumes}}}}}", Sources(roots=(tmp_path,)))
    assert [note.key for note in made.refused] == ["volumes: /data", "volumes: /large"]
    assert notes(made, "web", "volumes: /none")


def test_every_key_that_a_study_runs_is_carried_over_or_said() -> None:
    assert set(RULES) - CARRIED - set(SAID) - set(REFUSED) - WITHOUT_EFFECT == set()
    assert not (CARRIED & set(SAID)) | (CARRIED & set(REFUSED)) | (set(SAID) & set(REFUSED))


def test_amounts() -> None:
    assert [memory(v) for v in ("512m", "1g", 1024, "1.5gb", "100")] == ["512Mi", "1Gi", "1Ki", "1536Mi", "100"]
    assert [cpus(v) for v in (2, "0.5", 0.0001)] == ["2", "500m", "1m"]
    assert [seconds(v) for v in ("1m30s", "500ms", 3, "1h")] == [90, 0.5, 3, 3600]
    for wrong in ("many", "", "-1"):
        with pytest.raises(ValueError, match=r"found|could"):
            memory(wrong)
        with pytest.raises(ValueError, match=r"found|could"):
            cpus(wrong)
        with pytest.raises(ValueError, match="found"):
            seconds(wrong)


@given(st.text(min_size=1, max_size=90))
def test_every_name_has_a_label(name: str) -> None:
    assert is_label(label(name))
