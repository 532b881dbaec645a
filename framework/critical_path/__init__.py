"""Critical paths of traces: where the time of requests goes, and which services are worth tuning."""
