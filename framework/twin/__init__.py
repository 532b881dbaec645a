"""The queueing model of an application: translated from its description, calibrated, simulated."""
