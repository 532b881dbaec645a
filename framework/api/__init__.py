"""Tailor over HTTP: ``/v1``, with problem+json errors and OpenAPI.  Thin over ``framework.use_cases``, like the CLI."""
