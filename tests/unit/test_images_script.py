"""``scripts/images``: the list of images that it makes.  Nothing is pulled or built here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def listed(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "images"), "--list", *arguments],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("application", "images"),
    [
        (
            "social-network",
            "jaegertracing/jaeger:2.13.0 memcached:1.6 nginx:1.22 postgres:15 redis:7.0 tailor/loadgen:5 "
            "tailor/social-network:1",
        ),
        (
            "hotel-reservation",
            "jaegertracing/jaeger:2.13.0 memcached:1.6 postgres:15 tailor/loadgen:5 tailor/hotel-reservation:1",
        ),
        ("search", "jaegertracing/jaeger:2.13.0 tailor/loadgen:5 tailor/search:1"),
        (
            "key-value",
            "jaegertracing/jaeger:2.13.0 memcached:1.6 redis:7.0 tailor/loadgen:5 tailor/key-value:1 "
            "tailor/key-value-load:1",
        ),
        (
            "key-value/throughput",
            "jaegertracing/jaeger:2.13.0 memcached:1.6 redis:7.0 tailor/loadgen:5 tailor/key-value:1 "
            "tailor/key-value-load:1",
        ),
    ],
)
def test_an_application_needs_its_own_images_and_the_load_generator(application: str, images: str) -> None:
    assert listed("--for", f"apps/{application}").stdout.split() == images.split()


def test_images_of_others_are_left_to_compose(tmp_path: Path) -> None:
    (tmp_path / "application.yaml").write_text('kind: application\ncompose: "stack.yml"  # theirs\n')
    (tmp_path / "stack.yml").write_text("services:\n  a:\n    image: 'nginx:1.22'\n  b: \n    image: example/b:3\n")
    assert listed("--for", str(tmp_path)).stdout.split() == ["nginx:1.22", "tailor/loadgen:5"]


def test_without_an_application_every_image_is_made() -> None:
    assert {"tailor/stressor:1", "haproxy:2.6", "redis:7.0", "tailor/search:1"} <= set(listed().stdout.split())


@pytest.mark.parametrize("text", [None, "kind: application\n"])
def test_what_is_no_application_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "application.yaml").write_text(text)
    refused = listed("--for", str(tmp_path))
    assert refused.returncode == 3
    assert "application.yaml" in refused.stderr
