"""The discrete-event simulator of a twin, compiled by numba."""
