"""The tables, as the latest migration leaves them."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

# Constraints have names, so that a later migration can address them on every database.
metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

studies = Table(
    "studies",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("created_at", String(40), nullable=False),
    Column("state", String(16), nullable=False),
    Column("message", Text, nullable=False),
    Column("plan", JSON, nullable=False),
    Column("application_hash", String(64), nullable=False),
    Column("space", JSON, nullable=False),
    Column("machine", JSON, nullable=False),
    Column("versions", JSON, nullable=False),
    Column("testbed", String(32), nullable=False),
    Column("modelled", Boolean, nullable=False),
    Column("best", Integer),
    Column("verdict", JSON),
    Column("rivals", JSON, nullable=False),
    Column("decisions", JSON, nullable=False),
)

trials = Table(
    "trials",
    metadata,
    Column("study", ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("purpose", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("configuration", JSON, nullable=False),
    Column("label", String(64), nullable=False),
    Column("ask", Integer),
    Column("pair", Integer),
    Column("value", Float),
    Column("standard_error", Float),
    Column("told_value", Float),
    Column("reason", Text, nullable=False),
    Column("phases", JSON, nullable=False),
    Column("images", JSON, nullable=False),
    Column("standins", JSON, nullable=False),
    Column("passed", JSON, nullable=False),
    Column("documents", String(64), nullable=False),
    Column("started_at", String(40), nullable=False),
    Column("finished_at", String(40), nullable=False),
    Column("quantities", JSON, nullable=False),
    Column("costs", JSON, nullable=False),
    Column("testbed", String(255), nullable=False),
    Column("pending_asks", JSON, nullable=False),
)

measurements = Table(
    "measurements",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("study", ForeignKey("studies.id", ondelete="CASCADE"), nullable=False),
    Column("trial", Integer, nullable=False),
    Column("repetition", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("document", JSON, nullable=False),
    Column("latencies", String(64), nullable=False),
    Index("ix_measurements_study_trial", "study", "trial"),
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("study", ForeignKey("studies.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("at", String(40), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("data", JSON, nullable=False),
)

artefacts = Table(  # only where workers on several machines share a database
    "artefacts",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("put_ns", BigInteger, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("study", ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("priority", Integer, nullable=False),
    Column("owner", String(64), nullable=False),
    Column("resource", String(128), nullable=False),
    Column("queued_ns", BigInteger, nullable=False),
    Column("worker", String(128), nullable=False),
    Column("stop", String(16), nullable=False),
    Column("progress", JSON),
)

tokens = Table(
    "tokens",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),  # SHA-256 of the token, which is stored nowhere
    Column("scope", String(8), nullable=False),
    Column("created_at", String(40), nullable=False),
)

offers = Table(  # trials that clients measure elsewhere
    "offers",
    metadata,
    Column("study", ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("trial", Integer, primary_key=True, autoincrement=False),
    Column("client", String(128), nullable=False),
    Column("expires_ns", BigInteger, nullable=False),
)

keys = Table(  # idempotency keys: a repeated request returns the study of the first one
    "keys",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("key", String(128), primary_key=True),
    Column("request", String(64), nullable=False),  # SHA-256 of the request
    Column("study", String(64), nullable=False),
    Column("created_ns", BigInteger, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("study", ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("holder", String(128), nullable=False),
    Column("expires_ns", BigInteger, nullable=False),
)

batch_jobs = Table(  # best-effort jobs that a guard runs
    "batch_jobs",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("name", String(128), nullable=False),
    Column("spec", JSON, nullable=False),
    Column("state", String(16), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("used_s", Float, nullable=False),
    Column("useful_s", Float, nullable=False),
    Column("wasted_s", Float, nullable=False),
    Column("reason", Text, nullable=False),
    Column("queued_ns", BigInteger, nullable=False),
)
