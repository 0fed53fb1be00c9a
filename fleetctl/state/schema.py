"""The tables of the state database, version by version."""

from __future__ import annotations

import sqlite3

SCHEMA_1 = """
CREATE TABLE drains (
    phone TEXT NOT NULL, who TEXT NOT NULL, origin TEXT NOT NULL, why TEXT NOT NULL,
    since REAL NOT NULL, PRIMARY KEY (phone, origin, who));
CREATE TABLE health (
    phone TEXT PRIMARY KEY, status TEXT NOT NULL, message TEXT NOT NULL, time REAL NOT NULL);
CREATE TABLE contacts (
    phone TEXT PRIMARY KEY, seen REAL, missed_since REAL, returned REAL);
CREATE TABLE allocations (
    phone TEXT PRIMARY KEY, run TEXT NOT NULL, since REAL NOT NULL);
"""

_SCHEMA_2 = """
ALTER TABLE contacts ADD COLUMN why TEXT;
CREATE TABLE adb_tries (
    phone TEXT PRIMARY KEY, time REAL NOT NULL, answered INTEGER NOT NULL);
CREATE TABLE revocations (phone TEXT PRIMARY KEY, seen INTEGER NOT NULL);
CREATE TABLE wanted_revocations (version INTEGER NOT NULL);
INSERT INTO wanted_revocations VALUES (0);
"""

_SCHEMA_3 = """
CREATE TABLE facts (phone TEXT PRIMARY KEY, time REAL NOT NULL, facts TEXT NOT NULL);
"""

_SCHEMA_4 = """
CREATE TABLE holdings (
    phone TEXT NOT NULL, data TEXT NOT NULL, manifest TEXT NOT NULL, files INTEGER NOT NULL,
    of_files INTEGER NOT NULL, time REAL NOT NULL, PRIMARY KEY (phone, data));
"""

_SCHEMA_5 = """
ALTER TABLE drains ADD COLUMN until REAL;
ALTER TABLE health ADD COLUMN who TEXT;
ALTER TABLE allocations ADD COLUMN who TEXT;
ALTER TABLE allocations ADD COLUMN why TEXT;
CREATE TABLE events (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, phone TEXT NOT NULL, kind TEXT NOT NULL,
    who TEXT NOT NULL, why TEXT NOT NULL);
CREATE INDEX events_of_phone ON events (phone, id);
"""

_MIGRATIONS = (SCHEMA_1, _SCHEMA_2, _SCHEMA_3, _SCHEMA_4, _SCHEMA_5)
"""Statements that lead from each version of the database to the next; the first makes it."""

SCHEMA_VERSION = len(_MIGRATIONS)


def version(database: sqlite3.Connection) -> int:
    (found,) = database.execute("PRAGMA user_version").fetchone()
    return int(found)


def bring_up_to_date(database: sqlite3.Connection) -> None:
    """Within a transaction of the caller's."""
    for migration in _MIGRATIONS[version(database) :]:
        for statement in migration.split(";"):
            database.execute(statement)
    database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
