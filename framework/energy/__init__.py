"""Cycles and joules of an application's requests and I/O, computed from counters; pure functions."""
