"""Load generators: one file each, found by name."""
