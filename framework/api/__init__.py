"""Tailor over HTTP: ``/v1``, with problem+json errors and OpenAPI.  Thin over ``framework.service``, like the CLI."""
