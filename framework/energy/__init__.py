"""Cycles and joules of what an application does, computed from counters or estimated: pure functions."""
