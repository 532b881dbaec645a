"""Where the time of requests goes: critical paths of traces, and the services worth tuning."""
