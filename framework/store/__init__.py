"""The store of studies: a SQL database, SQLite by default; large artefacts are files named by their content."""
