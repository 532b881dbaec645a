"""What this machine says of itself: topology, CPU time, counters."""
