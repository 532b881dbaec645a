"""Stand-ins: images built here from packages where no registry could be reached, under the tag of the true version.

Their labels pass on to whatever is built on them.  Of the images with the labels of one recipe the stand-in is the one
that the others are built on; they are what their own makers put into them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.engine import Engine

STANDIN = "tailor.standin"
RECIPE = "tailor.recipe"


def is_labelled(image: Mapping[str, Any] | None) -> bool:
    """Return whether an image, as the engine describes it, is a stand-in or built on one."""
    return _labels(image).get(STANDIN) == "true"


def standins(engine: Engine, images: Iterable[Mapping[str, Any]]) -> Collection[str]:
    """Return the ids of the images, as the engine describes them, that are stand-ins themselves."""
    candidates = {image["Id"]: _labels(image).get(RECIPE, "") for image in images if is_labelled(image)}
    if not candidates:
        return frozenset()
    others: dict[str, list[str]] = {}
    for image in engine.labelled.images(f"{STANDIN}=true"):
        recipe = (image.get("Labels") or {}).get(RECIPE, "")
        others.setdefault(recipe, []).append(image["Id"])
    return frozenset(
        image for image, recipe in candidates.items() if _is_lowest(engine, image, others.get(recipe, [image]))
    )


def _is_lowest(engine: Engine, image: str, alike: Collection[str]) -> bool:
    """Return whether no other of these images is below ``image``: one with fewer layers, or the same ones and older."""
    if set(alike) <= {image}:
        return True
    heights = {name: _height(about) for name, about in zip(alike, in_parallel(engine.image, alike), strict=True)}
    return image not in heights or heights[image] == min(heights.values())


def _height(image: Mapping[str, Any] | None) -> tuple[int, str]:
    about = image or {}
    layers = len((about.get("RootFS") or {}).get("Layers") or ())
    return layers, str(about.get("Created") or "")


def _labels(image: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return ((image or {}).get("Config") or {}).get("Labels") or {}
