"""The algorithms: one optimizer, one file; each is an entry point of the group ``tailor.optimizers``."""
