"""Entries, logs and news in a SQLite database.

Keys are compared by their UTF-8, which is the order of their code points, as in Python.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from math import inf
from typing import Final

from trio_mcp.store.changes import Append, folder_of
from trio_mcp.store.errors import StoreUnusable
from trio_mcp.store.tables import Row, Tables

_APPLICATION: Final = 0x74726D63
_FORMAT: Final = 1
"""The version of the tables below. A change of them increases it, and has to convert old ones."""

_SCHEMA: Final = (
    "CREATE TABLE meta (version INTEGER NOT NULL)",
    "INSERT INTO meta VALUES (0)",
    # The value is last, so that the other columns are read without it.
    "CREATE TABLE entries (key TEXT PRIMARY KEY, folder TEXT, due REAL, version INTEGER NOT NULL,"
    " expires REAL NOT NULL, value BLOB NOT NULL)",
    "CREATE INDEX entries_expires ON entries (expires)",
    "CREATE INDEX entries_folder ON entries (folder, key) WHERE folder IS NOT NULL",
    "CREATE INDEX entries_due ON entries (folder, due, key) WHERE due IS NOT NULL",
    # A log without a name was dropped, and is swept bit by bit.
    "CREATE TABLE logs (id INTEGER PRIMARY KEY, log TEXT UNIQUE, first INTEGER NOT NULL,"
    " last INTEGER NOT NULL, size INTEGER NOT NULL, expires REAL NOT NULL)",
    "CREATE INDEX logs_expires ON logs (expires)",
    "CREATE TABLE items (id INTEGER, position INTEGER, item BLOB NOT NULL,"
    " PRIMARY KEY (id, position)) WITHOUT ROWID",
    # The numbers of news have no gaps, so a process that was away too long notices.
    "CREATE TABLE news (number INTEGER PRIMARY KEY AUTOINCREMENT, sender TEXT NOT NULL,"
    " channel TEXT NOT NULL)",
    "CREATE TABLE listeners (name TEXT PRIMARY KEY)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_FORMAT}",
)

_SWEPT: Final = 256
"""Expired entries that a transaction removes, besides two for each of its jobs."""

_SWEPT_ITEMS: Final = 4096
_CLEAN: Final = 0.25
"""Seconds for which nothing is swept after all was."""
_NEWS_KEPT: Final = 10_000


def prepare(connection: sqlite3.Connection) -> None:
    """Create the tables, within a transaction, unless they exist.

    Raises:
        StoreUnusable: It is a database of something else, or of a newer version.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (format,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if (application, format, tables) == (0, 0, 0):
        for statement in _SCHEMA:
            connection.execute(statement)
    elif application != _APPLICATION:
        raise StoreUnusable("it is a database of another program")
    elif format != _FORMAT:
        raise StoreUnusable(
            f"its format is {format}, and this version of the package knows {_FORMAT} only: "
            "use the version that wrote it, or another file"
        )


class SQLiteTables(Tables):
    """Entries and logs in a database, within transactions that the caller begins and commits."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._stored_version = 0
        self._swept = -inf  # when all that had expired was removed

    def begin(self) -> None:
        """Read which version another process has given, after a transaction has begun."""
        (self.version,) = self._execute("SELECT version FROM meta").fetchone()
        self._stored_version = self.version

    def end(self) -> None:
        """Write which version was given last, before a transaction is committed."""
        if self.version != self._stored_version:
            self._execute("UPDATE meta SET version = ?", (self.version,))

    def undo(self) -> None:
        """Note that a transaction was rolled back: what it swept is there again."""
        self._swept = -inf

    # -- entries ------------------------------------------------------------------------------

    def load(self, key: str, now: float) -> Row | None:
        row = self._execute(
            "SELECT value, version, expires, due FROM entries WHERE key = ? AND expires > ?",
            (key, now),
        ).fetchone()
        return None if row is None else Row(*row)

    def save(self, key: str, row: Row | None) -> None:
        if row is None:
            self._execute("DELETE FROM entries WHERE key = ?", (key,))
        else:
            self._execute(
                "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                " due = excluded.due, version = excluded.version, expires = excluded.expires,"
                " value = excluded.value",
                (key, folder_of(key), row.due, row.version, row.expires, row.value),
            )

    def set_value(self, key: str, version: int, value: bytes) -> None:
        self._execute(
            "UPDATE entries SET version = ?, value = ? WHERE key = ?", (version, value, key)
        )

    def set_times(self, key: str, version: int, expires: float, due: float | None) -> None:
        self._execute(
            "UPDATE entries SET version = ?, expires = ?, due = ? WHERE key = ?",
            (version, expires, due, key),
        )

    def listed(self, folder: str, cursor: str, now: float) -> Iterable[tuple[str, Row]]:
        rows = self._execute(
            "SELECT key, value, version, expires, due FROM entries"
            " WHERE folder = ? AND key > ? AND expires > ? ORDER BY key",
            (folder, cursor, now),
        )
        return ((key, Row(*row)) for key, *row in rows)

    def due(self, folder: str, now: float, limit: int) -> list[tuple[float, str]]:
        return self._execute(
            "SELECT due, key FROM entries WHERE folder = ? AND due IS NOT NULL AND expires > ?"
            " ORDER BY due, key LIMIT ?",
            (folder, now, limit),
        ).fetchall()

    # -- logs ---------------------------------------------------------------------------------

    def append(self, change: Append, now: float) -> int:
        row: tuple[int, int, int, int] | None = self._execute(
            "SELECT id, first, last, size FROM logs WHERE log = ? AND expires > ?",
            (change.key, now),
        ).fetchone()
        id, first, last, size = self._new_log(change.key, now) if row is None else row
        last += 1
        size += len(change.item)
        self._execute("INSERT INTO items VALUES (?, ?, ?)", (id, last, change.item))
        first, size = self._trim(id, first, last, size, change)
        self._execute(
            "UPDATE logs SET first = ?, last = ?, size = ?, expires = ? WHERE id = ?",
            (first, last, size, now + change.ttl, id),
        )
        return last

    def _new_log(self, name: str, now: float) -> tuple[int, int, int, int]:
        self.drop(name, now)
        id = self.id_of_log(now)
        self._execute("INSERT INTO logs VALUES (?, ?, 1, 0, 0, 0)", (id, name))
        return id, 1, 0, 0

    def _trim(self, id: int, first: int, last: int, size: int, change: Append) -> tuple[int, int]:
        """Remove the items beyond the bounds of a log. Return its first position and size."""
        too_many = max(first, last - change.limit + 1)
        if too_many == first and size <= change.max_bytes:
            return first, size
        lengths = self._execute(
            "SELECT position, length(item) FROM items WHERE id = ? ORDER BY position", (id,)
        )
        for position, length in lengths:
            if position >= too_many and (size <= change.max_bytes or position == last):
                break
            first, size = position + 1, size - length
        lengths.close()
        self._execute("DELETE FROM items WHERE id = ? AND position < ?", (id, first))
        return first, size

    def drop(self, log: str, now: float) -> int:
        last = self.ends(log, now)[1]
        self._execute("UPDATE logs SET log = NULL, expires = 0 WHERE log = ?", (log,))
        self._swept = -inf
        return last

    def ends(self, log: str, now: float) -> tuple[int, int, int]:
        row: tuple[int, int, int] | None = self._execute(
            "SELECT first, last, id FROM logs WHERE log = ? AND expires > ?", (log, now)
        ).fetchone()
        return (1, 0, 0) if row is None else row

    def items(self, log: str, after: int) -> Iterable[tuple[int, bytes]]:
        return self._execute(
            "SELECT position, item FROM items WHERE id = (SELECT id FROM logs WHERE log = ?)"
            " AND position > ? ORDER BY position",
            (log, after),
        )

    # -- expiry -------------------------------------------------------------------------------

    def sweep(self, now: float, jobs: int) -> None:
        """Remove some of what has expired: more than the jobs of a transaction can add.

        While there may be more, each transaction looks; otherwise one does now and then.
        """
        is_clean = self._swept <= now < self._swept + _CLEAN
        if not is_clean and not self._remove_expired(now, _SWEPT + 2 * jobs):
            self._swept = now

    def _remove_expired(self, now: float, limit: int) -> bool:
        """Remove so many entries that have expired, and one log; return whether there may be more.

        A long log loses a part of its items only.
        """
        removed = self._execute(
            "DELETE FROM entries WHERE rowid IN"
            " (SELECT rowid FROM entries WHERE expires <= ? ORDER BY expires LIMIT ?)",
            (now, limit),
        ).rowcount
        row = self._execute(
            "SELECT id, first, last FROM logs WHERE expires <= ? ORDER BY expires LIMIT 1", (now,)
        ).fetchone()
        if row is None:
            return removed == limit
        id, first, last = row
        end = first + _SWEPT_ITEMS
        self._execute("DELETE FROM items WHERE id = ? AND position < ?", (id, end))
        if end > last:
            self._execute("DELETE FROM logs WHERE id = ?", (id,))
        else:
            self._execute("UPDATE logs SET first = ? WHERE id = ?", (end, id))
        return True

    # -- news ---------------------------------------------------------------------------------

    def listen(self, name: str) -> int:
        """Register a process that wants news. Return the number of the last news."""
        self._execute("INSERT INTO listeners VALUES (?)", (name,))
        row = self._execute("SELECT seq FROM sqlite_sequence WHERE name = 'news'").fetchone()
        return 0 if row is None else row[0]

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._execute("DELETE FROM listeners WHERE name = ?", (name,))

    def publish(self, channels: Iterable[str], sender: str) -> list[str]:
        """Write news for other processes. Return the names of those that listen."""
        rows = self._execute("SELECT name FROM listeners WHERE name != ?", (sender,))
        names = [name for (name,) in rows]
        if names:
            for channel in channels:
                self._execute("INSERT INTO news (sender, channel) VALUES (?, ?)", (sender, channel))
            self._execute(
                "DELETE FROM news WHERE number <= (SELECT max(number) FROM news) - ?",
                (_NEWS_KEPT,),
            )
        return names

    def news(self, after: int, reader: str) -> tuple[int, set[str] | None]:
        """Return the number of the last news, and the channels of news from other processes.

        In place of the channels, None means that some news was dropped before it was read.
        """
        rows = self._execute(
            "SELECT number, sender, channel FROM news WHERE number > ? ORDER BY number", (after,)
        ).fetchall()
        if not rows:
            return after, set()
        channels = {channel for _, sender, channel in rows if sender != reader}
        return rows[-1][0], channels if rows[0][0] == after + 1 else None
