"""Readers of traces: one format, one file, found by name."""
