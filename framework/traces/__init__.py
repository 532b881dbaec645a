"""Readers of traces: one format, one file, chosen by name."""
