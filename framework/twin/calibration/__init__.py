"""Calibration of a twin from the measurements of studies."""
