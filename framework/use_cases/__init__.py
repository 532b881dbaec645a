"""The use cases of Tailor, one file per subject, whatever interface asks."""
