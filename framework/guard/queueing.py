"""Tail of the response time of a queue with several servers (M/M/c, first come first served)."""

from __future__ import annotations

import math

UNSTABLE_SHARE = 0.98
"""Utilisation up to which the steady state stands for a window; beyond it the backlog grows, which the plant counts."""


def waiting_probability(servers: int, offered: float) -> float:
    """Return the probability that a request waits (Erlang C).  ``offered``: rate times service time, below servers."""
    term = total = 1.0
    for n in range(1, servers):
        term *= offered / n
        total += term
    last = term * offered / servers / (1 - offered / servers)
    return last / (total + last)


def tail_s(rate: float, service_s: float, servers: int, quantile: float = 0.95) -> float:
    """Return a quantile of the response time, in seconds.

    P(T > t) = e^(-mt) + C m / (m - d) (e^(-dt) - e^(-mt)), with m = 1 / service_s, d = servers m - rate, and Erlang's C
    (Gross and Harris, Fundamentals of Queueing Theory, 2.3).  A rate beyond UNSTABLE_SHARE of the capacity counts as
    that share.
    """
    m = 1.0 / service_s
    rate = min(rate, UNSTABLE_SHARE * servers * m)
    waits = waiting_probability(servers, rate * service_s) if rate > 0 else 0.0
    d = servers * m - rate
    if abs(m - d) < 1e-9 * m:
        d *= 1 + 1e-6
    ratio, left = waits * m / (m - d), 1 - quantile

    def over(t: float) -> float:
        slow = math.exp(-m * t)
        return slow + ratio * (math.exp(-d * t) - slow)

    low, high = 0.0, service_s
    while over(high) > left:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if over(middle) > left else (low, middle)
    return (low + high) / 2
