"""Schedule of a profile: its windows, their order, and those that are still to be measured."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from framework.model.cpus import read_cpus
from framework.model.profiling import ProfileRequest
from framework.model.stressors import Stressor
from framework.placement.profile import Profile, ProfileHeader, block_of


def unfinished(kept: Profile, request: ProfileRequest, rate_rps: float) -> tuple[str, ...]:
    """Return the services that have a planned window without an attempt, because the run was interrupted.

    Empty for a profile with another rate, window length or seed than the request has.
    """
    header = kept.about
    if (header.rate_rps, header.window_s, header.seed) != (rate_rps, request.window_s, request.seed):
        return ()
    tried = {window.key for window in kept.windows}
    stressors = stressors_of(request, header.place)
    return tuple(
        service
        for service in services_of(header, request)
        if any(
            key_of(service, stressor, block, position) not in tried
            for block in range(request.blocks)
            for position, stressor in enumerate(order_of(request, service, block, stressors))
        )
    )


def services_of(header: ProfileHeader, request: ProfileRequest) -> Sequence[str]:
    """Return the services that the request names, else all that the load reaches often enough."""
    rare = header.rare()
    return request.services or [name for name in sorted(header.peaks) if name not in rare]


def stressors_of(request: ProfileRequest, place: str) -> list[Stressor]:
    """Return every kind of stressor at every intensity."""
    intensities = request.intensities or intensities_of(place)
    return [Stressor(kind, threads, duty, place) for kind in request.stressors for threads, duty in intensities]


def order_of(
    request: ProfileRequest, service: str, block: int, stressors: Sequence[Stressor]
) -> Sequence[Stressor | None]:
    """Return the stressors of a service's windows in a block, in order; None for a window without one."""
    return block_of(stressors, zlib.crc32(f"{request.seed} {service} {block}".encode()))


def key_of(service: str, stressor: Stressor | None, block: int, position: int) -> tuple[str, str, int, float, int, int]:
    """Return the ``ProfileWindow.key`` of a planned window."""
    kind, threads, duty = (stressor.kind, stressor.threads, stressor.duty) if stressor else ("", 0, 0.0)
    return (service, kind, threads, duty, block, position)


def intensities_of(place: str) -> tuple[tuple[int, float], ...]:
    """Return (threads, duty) of each intensity: half of one thread's time, then 1, 2, 4, 8 threads up to the CPUs."""
    cpus = len(read_cpus(place))
    return ((1, 0.5), *((threads, 1.0) for threads in (1, 2, 4, 8) if threads <= cpus))
