"""Protocols of everything outside Tailor, one per file.  Only ``framework.bootstrap`` names the adapters."""
