"""Questions to an SQLite database that change nothing: `python sqlite.py DATABASE`.

SQL from a model is a stranger's program, so it is kept in four ways that do not depend on
each other: the file is opened read-only; an authorizer looks at every single thing that a statement
would do, and allows what is named here; sizes are bounded within SQLite; and a statement that
no caller waits for any more is stopped. Values belong in parameters, never in the text.
"""

import base64
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Annotated

import trio
from attrs import frozen

from trio_mcp import Registry, ToolAnnotations, ToolError, serve

TIME_LIMIT = 10.0  # seconds for a question
LOCK_TIMEOUT = 1.0  # seconds to wait for another writer
MOST_ROWS = 1000
MOST_BYTES = 256 * 1024  # of one answer, and of any value on the way to it
MOST_MEMORY = 64 * 1024 * 1024  # of SQLite, for all questions together
STEPS = 1000  # instructions of SQLite's between two looks at whether to stop
EXACT = 2**53 - 1  # the largest integer that every JSON parser keeps

READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)

# What is not named is refused.
ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
PRAGMAS = {"table_xinfo", "foreign_key_list", "data_version"}  # the last one is full-text search's
NAMES = """
    abs avg char coalesce count date datetime format group_concat hex highlight ifnull iif instr
    julianday length like likely unlikely lower ltrim max min nullif printf quote random replace
    round rtrim sign snippet bm25 match strftime substr substring sum time timediff total trim
    typeof unicode unixepoch upper glob current_date current_time current_timestamp
    ceil ceiling exp floor ln log log10 log2 mod pow power sqrt trunc
    -> ->> json json_array json_array_length json_extract json_group_array
    json_group_object json_object json_quote json_type json_valid
    cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank
    row_number
"""
FUNCTIONS = frozenset(NAMES.split())
SIZES = {
    sqlite3.SQLITE_LIMIT_LENGTH: MOST_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 10_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
ADVICE = {
    sqlite3.SQLITE_AUTH: "This server only reads: ask with one SELECT and plain functions.",
    sqlite3.SQLITE_READONLY: "This server only reads: ask with one SELECT.",
    sqlite3.SQLITE_BUSY: "Another program is writing to the database; try again.",
    sqlite3.SQLITE_NOMEM: "The question needs too much memory; have it sort or join fewer rows.",
    sqlite3.SQLITE_TOOBIG: f"A value may have {MOST_BYTES} bytes, and a statement 10000.",
    sqlite3.SQLITE_CANTOPEN: "The database has gone, or may not be read.",
    sqlite3.SQLITE_NOTADB: "The file is not a SQLite database.",
}


@frozen
class Blob:
    """Bytes of a row."""

    base64: str


Scalar = str | int | float | None
Cell = str | int | float | Blob | None


@frozen
class Rows:
    """What a question found."""

    columns: list[str]
    rows: list[list[Cell]]
    notes: list[str]


@frozen
class Table:
    """A table or a view."""

    name: str
    kind: str


@frozen
class Tables:
    """The tables and views of the database."""

    tables: list[Table]


@frozen
class Column:
    """A column. A primary key has the place of the column in the key, from 1 on; others 0."""

    name: str
    type: str
    required: bool
    default: str | None
    primary_key: int


@frozen
class Reference:
    """A foreign key."""

    column: str
    table: str
    refers_to: str | None


@frozen
class Description:
    """The columns of a table or view, and what they refer to."""

    columns: list[Column]
    references: list[Reference]


def authorize(action: int, one: str | None, two: str | None, *_: str | None) -> int:
    """Say whether a statement may do something. SQLite asks this for each thing, before it runs."""
    allowed = (
        action in ACTIONS
        or (action == sqlite3.SQLITE_FUNCTION and two in FUNCTIONS)
        or (action == sqlite3.SQLITE_PRAGMA and one in PRAGMAS)
        # How SQLite asks for the columns of a virtual table; a real change it refuses by itself.
        or (action == sqlite3.SQLITE_UPDATE and one == "sqlite_master")
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def must_stop() -> int:
    """Say whether a statement must stop. SQLite asks this again and again while it runs."""
    try:
        trio.from_thread.check_cancelled()
    except trio.Cancelled:  # raised again in `explained`, when SQLite has stopped
        return 1
    return 0


@contextmanager
def explained() -> Iterator[None]:
    """Turn what SQLite says into an error that the caller can do something about."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
        trio.from_thread.check_cancelled()
        what = str(error).rstrip(".") or "out of memory"
        raise ToolError(f"{what}. {advice_on(error)}".strip()) from None


def advice_on(error: Exception) -> str:
    """What to do about an error."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if "not authorized" in str(error):  # which SQLite says with several codes
        code = sqlite3.SQLITE_AUTH
    if isinstance(error, MemoryError):
        code = sqlite3.SQLITE_NOMEM
    return ADVICE.get(code, "")


@frozen
class Database:
    """A database that is only read. All of it blocks, and runs in worker threads."""

    path: Path

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """A connection of one's own, for one question."""
        uri = f"{self.path.as_uri()}?mode=ro"
        with (
            explained(),
            closing(
                sqlite3.connect(uri, uri=True, timeout=LOCK_TIMEOUT, isolation_level=None)
            ) as connection,
        ):
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA trusted_schema = OFF")  # the file may be anybody's, too
            connection.execute("PRAGMA temp_store = MEMORY")  # so that sorting fills no disk
            connection.execute(f"PRAGMA hard_heap_limit = {MOST_MEMORY}")  # of the whole process
            for size, most in SIZES.items():
                connection.setlimit(size, most)
            connection.text_factory = lambda data: data.decode(errors="replace")
            connection.set_progress_handler(must_stop, STEPS)
            connection.set_authorizer(authorize)  # from here on
            yield connection

    def list_tables(self) -> Tables:
        """List the tables and views of the database."""
        question = (
            "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name LIMIT 1000"
        )
        with self.opened() as connection:
            return Tables([Table(*row) for row in connection.execute(question)])

    def describe_table(self, table: Annotated[str, {"maxLength": 200}]) -> Description:
        """Describe the columns of a table or view."""
        columns = 'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_xinfo(?)'
        references = 'SELECT "from", "table", "to" FROM pragma_foreign_key_list(?)'
        with self.opened() as connection:
            found = [
                Column(name, type, bool(required), default, key)
                for name, type, required, default, key in connection.execute(columns, [table])
            ]
            if not found:
                raise ToolError(f"There is no table {table!r}; list_tables shows what there is.")
            others = [Reference(*row) for row in connection.execute(references, [table])]
        return Description(found, others)

    def query(
        self,
        sql: Annotated[str, {"maxLength": 10_000}, "One SELECT, with ? or :name for values."],
        parameters: Annotated[
            list[Scalar] | dict[str, Scalar] | None, "The values, in their order or by name."
        ] = None,
        limit: Annotated[int, {"minimum": 1, "maximum": MOST_ROWS}, "The most rows."] = 100,
    ) -> Rows:
        """Ask the database a question. Blobs come as base64; `notes` tell what is missing."""
        with self.opened() as connection:
            cursor = connection.execute(sql, parameters or [])
            if cursor.description is None:
                raise ToolError("There is no question in it; ask with one SELECT.")
            columns = [column[0] for column in cursor.description]
            return rows_of(columns, cursor, limit)


def rows_of(columns: list[str], cursor: sqlite3.Cursor, limit: int) -> Rows:
    """The first rows of an answer, as many as fit."""
    rows: list[list[Cell]] = []
    notes: list[str] = []
    left = MOST_BYTES
    for row in islice(cursor, limit):
        cells = [cell_of(value) for value in row]
        left -= sum(map(size_of, cells))
        if left < 0:
            notes.append(f"Only {len(rows)} rows: more would be over {MOST_BYTES} bytes.")
            break
        rows.append(cells)
    else:
        if next(cursor, None) is not None:
            notes.append(f"Only {limit} rows: there are more. Use LIMIT and OFFSET for others.")
    if any(isinstance(cell, Blob) for row in rows for cell in row):
        notes.append("Blobs are in base64.")
    return Rows(columns, rows, notes)


def cell_of(value: str | int | float | bytes | None) -> Cell:
    """A value as JSON can carry it."""
    if isinstance(value, bytes):
        return Blob(base64.b64encode(value).decode())
    if isinstance(value, int) and abs(value) > EXACT:
        return str(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value


def size_of(cell: Cell) -> int:
    """About how many bytes a value has as JSON."""
    text = cell.base64 if isinstance(cell, Blob) else cell
    return len(text.encode()) + 20 if isinstance(text, str) else 20


def query_server(path: Path) -> Registry:
    """A server that answers questions to a database."""
    registry = Registry("sqlite", version="1.0", tool_timeout=TIME_LIMIT)
    database = Database(path.resolve(strict=True))
    registry.add_tool(database.list_tables, annotations=READ_ONLY)
    registry.add_tool(database.describe_table, annotations=READ_ONLY)
    registry.add_tool(database.query, annotations=READ_ONLY, max_concurrent=4)
    return registry


def main() -> None:
    """Serve the database that the command line names."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: python sqlite.py DATABASE (which has to exist)")
    trio.run(serve, query_server(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
