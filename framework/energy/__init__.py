"""What an application's requests and I/O cost in cycles and joules, computed from counters; pure functions."""
