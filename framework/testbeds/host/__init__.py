"""Readings of this machine: topology, CPU time, hardware counters."""
