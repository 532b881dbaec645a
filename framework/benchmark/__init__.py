"""Races of optimizers, on generated problems and on twins."""
