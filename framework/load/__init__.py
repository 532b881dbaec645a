"""Load generators: one file each, chosen by name."""
