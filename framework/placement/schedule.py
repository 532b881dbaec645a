"""Which windows a profile has, in which order, and which of them are still to be measured."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from framework.model.cpus import read_cpus
from framework.model.profiling import ProfileRequest
from framework.model.stressors import Stressor
from framework.placement.profile import Profile, ProfileHeader, block_of


def unfinished(kept: Profile, request: ProfileRequest, rate_rps: float) -> tuple[str, ...]:
    """Services of which a window that the request plans was not even tried: the run was broken off.  A profile at
    another rate or of other windows is of something else; none of it is unfinished.
    """
    about = kept.about
    if (about.rate_rps, about.window_s, about.seed) != (rate_rps, request.window_s, request.seed):
        return ()
    tried = {one.key for one in kept.windows}
    stressors = stressors_of(request, about.place)
    return tuple(
        service
        for service in services_of(about, request)
        if any(
            key_of(service, stressor, block, position) not in tried
            for block in range(request.blocks)
            for position, stressor in enumerate(order_of(request, service, block, stressors))
        )
    )


def services_of(about: ProfileHeader, request: ProfileRequest) -> Sequence[str]:
    """Those that were asked for, else all that the load reaches often enough."""
    rare = about.rare()
    return request.services or [name for name in sorted(about.peaks) if name not in rare]


def stressors_of(request: ProfileRequest, place: str) -> list[Stressor]:
    """Every kind at every intensity."""
    intensities = request.intensities or intensities_of(place)
    return [Stressor(kind, threads, duty, place) for kind in request.stressors for threads, duty in intensities]


def order_of(
    request: ProfileRequest, service: str, block: int, stressors: Sequence[Stressor]
) -> Sequence[Stressor | None]:
    """The windows of a service in a block; None for one without a stressor."""
    return block_of(stressors, zlib.crc32(f"{request.seed} {service} {block}".encode()))


def key_of(service: str, stressor: Stressor | None, block: int, position: int) -> tuple[str, str, int, float, int, int]:
    """Of a window that is yet to be measured, as ``Window.key``."""
    about = (stressor.kind, stressor.threads, stressor.duty) if stressor else ("", 0, 0.0)
    return (service, *about, block, position)


def intensities_of(place: str) -> tuple[tuple[int, float], ...]:
    """Half of one thread's time, then 1, 2, 4, 8 threads as far as the place has CPUs."""
    cpus = len(read_cpus(place))
    return ((1, 0.5), *((threads, 1.0) for threads in (1, 2, 4, 8) if threads <= cpus))
