"""Days of load, shortened: the load of every second, as a share of the peak rate."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

SECONDS = 3600


def diurnal(rng: np.random.Generator) -> NDArray[np.float64]:
    """A day from 20 to 90 % with its highest point at a random time, and a slow noise."""
    t = np.arange(SECONDS) / SECONDS
    wave = 0.55 - 0.35 * np.cos(2 * math.pi * (t - rng.random()))
    return _bounded(wave + _slow_noise(rng, 0.03))


def bursts(rng: np.random.Generator) -> NDArray[np.float64]:
    """40 %, and about every five minutes 30 to 90 s at 60 to 90 %, which it takes five seconds to reach."""
    t, load = np.arange(SECONDS), np.full(SECONDS, 0.40)
    at = rng.exponential(200)
    while at < SECONDS:
        length = rng.uniform(30, 90)
        height = rng.uniform(0.20, 0.50)
        load += height * np.clip(np.minimum(t - at, at + length - t) / 5, 0.0, 1.0)
        at += length + rng.exponential(200)
    return _bounded(load + _slow_noise(rng, 0.02))


def step(rng: np.random.Generator) -> NDArray[np.float64]:
    """50 %, then 95 % at once for a quarter of the time."""
    load = np.full(SECONDS, 0.50)
    at = int(rng.uniform(0.2, 0.6) * SECONDS)
    load[at : at + SECONDS // 4] = 0.95
    return _bounded(load + _slow_noise(rng, 0.02))


def flash_crowd(rng: np.random.Generator) -> NDArray[np.float64]:
    """30 %; within ten seconds 90 %, which fades with a time constant of five minutes."""
    load = np.full(SECONDS, 0.30)
    at = int(rng.uniform(0.2, 0.6) * SECONDS)
    t = np.arange(SECONDS - at, dtype=float)
    load[at:] += 0.60 * np.minimum(1.0, t / 10) * np.exp(-np.maximum(0.0, t - 60) / 300)
    return _bounded(load + _slow_noise(rng, 0.02))


def _slow_noise(rng: np.random.Generator, scale: float) -> NDArray[np.float64]:
    """Noise that remembers about a minute."""
    keep, noise = 1 - 1 / 60, rng.normal(0.0, scale * math.sqrt(2 / 60), SECONDS)
    values = np.empty(SECONDS)
    now = 0.0
    for second in range(SECONDS):
        now = keep * now + noise[second]
        values[second] = now
    return values


def _bounded(load: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(load, 0.02, 1.0)


DAYS: dict[str, Callable[[np.random.Generator], NDArray[np.float64]]] = {
    "diurnal": diurnal, "bursts": bursts, "step": step, "flash crowd": flash_crowd,
}  # fmt: skip
