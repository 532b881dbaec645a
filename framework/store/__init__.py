"""Where studies are kept: SQLite by default; large artefacts as files named by their content."""
