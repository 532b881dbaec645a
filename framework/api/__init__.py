"""Tailor over HTTP: ``/v1`` with problem+json errors and OpenAPI, and a dashboard.  Thin over ``use_cases``."""
