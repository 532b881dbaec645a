"""Applications that other people have: compose files and images -> a proposed application.yaml (`tailor init`).

    compose document, images -> understood -> proposal -> files

Pure: the compose files are read by the caller, and nothing is deployed here.
"""
