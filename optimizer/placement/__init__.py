"""Placement as an assignment problem."""
