"""Policies of the guard: one policy, one file."""
