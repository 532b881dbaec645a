"""Races of optimizers, on generated problems, twins and measured tables."""
