"""The database server, attacked: by statements that change things, reach out, or go on for ever."""

import base64
import math
import runpy
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from docs.examples import sqlite
from docs.examples.sqlite import MOST_BYTES, MOST_ROWS, query_server
from tests.support.processes import EXAMPLES, ROOT, TIME_LIMIT, python
from trio_mcp import CallResult, Client, Limits, McpError, Registry, ToolError, connect
from trio_mcp.errors import InvalidArguments
from trio_mcp.transports.process import ProcessOptions

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"

CONTENT = """
CREATE TABLE author(id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT 'nobody');
CREATE TABLE book(isbn TEXT, title TEXT, cover BLOB, author INTEGER REFERENCES author(id));
CREATE VIEW titles AS SELECT title FROM book;
CREATE VIRTUAL TABLE words USING fts5(body);
INSERT INTO author VALUES (1, 'Jane Austen'), (9007199254740993, 'somebody'), (3, x'ff41');
INSERT INTO book VALUES ('1', 'Emma', x'00ff', 1), ('2', 'Persuasion', NULL, 1);
INSERT INTO words VALUES ('it is a truth'), ('universally acknowledged');
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small database, under a name that has to be written with care."""
    path = tmp_path_factory.mktemp("data") / "a b?mode=rwc&x#%41.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(CONTENT)
    return path


@pytest.fixture
def server(database: Path) -> Registry:
    return query_server(database)


@pytest.fixture
def unchanged(database: Path) -> Iterator[None]:
    """Sees to it that nothing was written: not to the database, and not beside it."""
    before = database.read_bytes()
    yield
    assert database.read_bytes() == before
    assert [each.name for each in database.parent.iterdir()] == [database.name]


async def ask(client: Client, sql: str, parameters: Any = None, **more: Any) -> CallResult:
    arguments = {"sql": sql, **more}
    if parameters is not None:
        arguments["parameters"] = parameters
    return await client.call_tool("query", arguments, timeout=TIME_LIMIT)


async def test_the_server_as_a_process(database: Path, unchanged: None) -> None:
    program = python(EXAMPLES / "sqlite.py", str(database))
    options = ProcessOptions(env={"PYTHONPATH": str(ROOT)})
    with trio.fail_after(TIME_LIMIT):
        async with connect(program, process_options=options) as client:
            tables = await client.call_tool("list_tables")
            assert {"name": "titles", "kind": "view"} in tables.structured_content["tables"]
            question = "SELECT title FROM book WHERE author = ? ORDER BY title"
            found = await ask(client, question, [1])
            assert found.structured_content == {
                "columns": ["title"],
                "rows": [["Emma"], ["Persuasion"]],
                "notes": [],
            }
            for statement in ("DELETE FROM book", "ATTACH 'new.db' AS new", "VACUUM INTO 'x.db'"):
                refused = await ask(client, statement)
                assert not refused.success
                assert "This server only reads" in refused.error
            assert (await ask(client, f"{ENDLESS} SELECT i FROM n", limit=2)).success
            assert client.stray_output == []
            assert client.stderr() == ""


@pytest.mark.parametrize("arguments", [[], ["no-such.db"], ["a", "b"]])
def test_a_wrong_command_line_is_told(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["sqlite.py", *arguments])
    with pytest.raises(SystemExit) as told:
        runpy.run_path(str(EXAMPLES / "sqlite.py"), run_name="__main__")
    assert str(told.value.code).startswith("usage: ")
    assert list(tmp_path.iterdir()) == []  # nothing was made


# -- answers ----------------------------------------------------------------------------------


async def test_tables_are_described(server: Registry) -> None:
    tables = (await server.call("list_tables")).tables
    assert [each.name for each in tables if not each.name.startswith("words_")] == [
        "author",
        "book",
        "titles",
        "words",
    ]
    book = await server.call("describe_table", {"table": "book"})
    assert [(each.name, each.type) for each in book.columns] == [
        ("isbn", "TEXT"),
        ("title", "TEXT"),
        ("cover", "BLOB"),
        ("author", "INTEGER"),
    ]
    (reference,) = book.references
    assert (reference.column, reference.table, reference.refers_to) == ("author", "author", "id")
    id, name = (await server.call("describe_table", {"table": "author"})).columns
    assert (id.primary_key, name.required, name.default) == (1, True, "'nobody'")
    for table in ("titles", "words"):
        assert (await server.call("describe_table", {"table": table})).columns
    for table in ("nothing", "", "book'; DROP TABLE book; --"):
        with pytest.raises(ToolError, match="list_tables shows what there is"):
            await server.call("describe_table", {"table": table})


VALUES = [
    ("NULL", None, []),
    ("1", 1, []),
    ("-9007199254740991", -(2**53 - 1), []),
    ("9007199254740993", "9007199254740993", []),
    ("1.5", 1.5, []),
    ("9e999", "inf", []),
    ("-9e999", "-inf", []),
    ("'ä日'", "ä日", []),
    ("CAST(x'ff41' AS TEXT)", "\N{REPLACEMENT CHARACTER}A", []),
    ("x'00ff'", {"base64": base64.b64encode(b"\0\xff").decode()}, ["Blobs are in base64."]),
]


@pytest.mark.parametrize(("sql", "cell", "notes"), VALUES, ids=lambda value: repr(value)[:20])
async def test_values_are_told_as_json(
    sql: str, cell: Any, notes: list[str], server: Registry
) -> None:
    async with connect(server) as client:
        found = (await ask(client, f"SELECT {sql} AS value")).structured_content
        assert found == {"columns": ["value"], "rows": [[cell]], "notes": notes}


async def test_parameters_are_values_and_nothing_else(server: Registry, unchanged: None) -> None:
    async with connect(server) as client:
        injection = "' OR 1 = 1; DROP TABLE book; --"
        found = await ask(client, "SELECT * FROM book WHERE title = ?", [injection])
        assert found.structured_content["rows"] == []
        found = await ask(client, "SELECT :text, :number", {"text": injection, "number": 2})
        assert found.structured_content["rows"] == [[injection, 2]]
        for parameters, says in (
            (None, "Incorrect number of bindings"),
            ([1, 2], "Incorrect number of bindings"),
            ({}, "Incorrect number of bindings"),
            ([2**70], "too large"),
        ):
            refused = await ask(client, "SELECT ?", parameters)
            assert says in refused.error
        with pytest.raises(InvalidArguments, match="parameters"):
            await ask(client, "SELECT ?", [[1]])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT body FROM words WHERE words MATCH 'truth'",
        "SELECT highlight(words, 0, '<', '>') FROM words WHERE words MATCH 'truth'",
        "SELECT value FROM json_each('[1]')",
        "SELECT row_number() OVER (ORDER BY isbn) FROM book",
        "SELECT json_group_array(title) FROM titles",
        "SELECT sqrt(abs(-4)), upper('a'), strftime('%Y', 'now'), coalesce(NULL, 1)",
        "EXPLAIN QUERY PLAN SELECT * FROM book",
        "WITH t AS (SELECT 1 AS x) SELECT x FROM t UNION SELECT 2",
        "SELECT sql FROM sqlite_master",
        "SELECT 1; -- and a comment",
    ],
)
async def test_questions_of_all_kinds_are_answered(sql: str, server: Registry) -> None:
    assert (await server.call("query", {"sql": sql})).rows


async def test_a_database_that_is_written_to_is_read(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE t(x)")
        writer.execute("INSERT INTO t VALUES (1)")
        server = query_server(path)
        assert (await server.call("query", {"sql": "SELECT x FROM t"})).rows == [[1]]


async def test_what_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("Not a database, but long enough to be taken for one." * 100)
    with pytest.raises(ToolError, match="The file is not a SQLite database"):
        await query_server(path).call("query", {"sql": "SELECT * FROM t"})
    server = query_server(path)
    path.unlink()
    with pytest.raises(ToolError, match="has gone"):
        await server.call("query", {"sql": "SELECT 1"})
    assert not path.exists()


async def test_a_locked_database_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "LOCK_TIMEOUT", 0.0)
    path = tmp_path / "locked.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("CREATE TABLE t(x)")
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ToolError, match="Another program is writing"):
            await query_server(path).call("query", {"sql": "SELECT * FROM t"})


# -- what is refused --------------------------------------------------------------------------

REFUSED = [
    "INSERT INTO book VALUES ('3', 'x', NULL, 1)",
    "REPLACE INTO author VALUES (1, 'x')",
    "UPDATE book SET title = 'x'",
    "DELETE FROM book",
    "DELETE FROM book RETURNING *",
    "WITH a AS (SELECT 1) DELETE FROM book",
    "INSERT INTO words(words) VALUES ('optimize')",
    "UPDATE sqlite_master SET sql = 'x'",
    "DELETE FROM sqlite_master",
    "DROP TABLE book",
    "DROP VIEW titles",
    "ALTER TABLE book RENAME TO books",
    "CREATE TABLE t(x)",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TEMP TABLE t(x)",
    "CREATE INDEX i ON book(title)",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TEMP TRIGGER t AFTER INSERT ON book BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE temp.t USING fts3(x)",
    "EXPLAIN DELETE FROM book",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "SAVEPOINT s",
    "ATTACH 'new.db' AS new",
    "ATTACH 'file:new.db?mode=rwc' AS new",
    "ATTACH ':memory:' AS new",
    "DETACH main",
    "VACUUM",
    "VACUUM INTO 'new.db'",
    "REINDEX",
    "ANALYZE",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA journal_mode = WAL",
    "PRAGMA user_version = 7",
    "PRAGMA trusted_schema = ON",
    "PRAGMA hard_heap_limit = 0",
    "PRAGMA temp_store_directory = '.'",
    "PRAGMA wal_checkpoint",
    "PRAGMA database_list",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM pragma_user_version",
    "SELECT load_extension('nothing')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT fts3_tokenizer('simple', x'4141414141414141')",
    "SELECT randomblob(10)",
    "SELECT sqlite_version()",
    "SELECT title FROM book WHERE load_extension('nothing')",
]


@pytest.mark.parametrize("sql", REFUSED)
async def test_what_does_more_than_read_is_refused(
    sql: str, server: Registry, unchanged: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ToolError) as refused:
        await server.call("query", {"sql": sql})
    assert "only reads" in str(refused.value) or "may not be modified" in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO book VALUES ('3', 'x', NULL, 1)",
        "DELETE FROM book",
        "CREATE TABLE t(x)",
        "VACUUM INTO 'new.db'",
        "ATTACH 'new.db' AS new",
        "SELECT load_extension('nothing')",
    ],
)
async def test_without_the_authorizer_nothing_is_changed_either(
    sql: str, server: Registry, unchanged: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sqlite, "authorize", lambda *_: sqlite3.SQLITE_OK)
    with pytest.raises(ToolError):
        await server.call("query", {"sql": sql})
    assert list(tmp_path.iterdir()) == []


async def test_each_of_the_two_locks_holds_alone(
    database: Path, unchanged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is opened read-only, and the connection only asks."""
    monkeypatch.setattr(sqlite, "authorize", lambda *_: sqlite3.SQLITE_OK)

    def insert(pragma: str) -> str:
        with sqlite.Database(database).opened() as connection:
            assert connection.execute("PRAGMA query_only").fetchone() == (1,)
            connection.execute(pragma)
            assert connection.execute("PRAGMA query_only").fetchone() == (0,)
            connection.execute("INSERT INTO author VALUES (7, 'x')")
        raise AssertionError("it was written")

    with pytest.raises(ToolError, match="readonly database"):
        await trio.to_thread.run_sync(insert, "PRAGMA query_only = OFF")


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("", "no question in it"),
        ("-- nothing", "no question in it"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("SELECT 1; DELETE FROM book", "one statement at a time"),
        ("SELECT 'a\0b'", "null character"),
        ("SELECT 'half \ud800'", "surrogates"),
        ("SELEKT 1", "syntax error"),
        ("SELECT title FROM books", "no such table: books"),
        (f"SELECT 1{' + 1' * 101}", "too large"),
        (f"SELECT 'x' LIKE '{'%' * 101}'", "LIKE or GLOB pattern too complex"),
        ("SELECT 1" + " UNION SELECT 1" * 50, "too many terms"),
        ("SELECT ?101", "variable number must be"),
    ],
)
async def test_mistakes_are_told(sql: str, says: str, server: Registry, unchanged: None) -> None:
    with pytest.raises(ToolError, match=says):
        await server.call("query", {"sql": sql})


WORDS = """
    SELECT INSERT UPDATE DELETE REPLACE INTO VALUES FROM WHERE SET DROP CREATE TEMP TABLE VIEW
    INDEX TRIGGER VIRTUAL USING fts5 PRAGMA query_only user_version writable_schema ATTACH VACUUM
    REINDEX ANALYZE BEGIN COMMIT ROLLBACK EXPLAIN WITH AS ON book author title sqlite_master 'x'
    x'00' 1 0 ( ) * , ; = . -- /* */ ? :a new.db main load_extension fts3_tokenizer OFF
"""
STATEMENTS = st.lists(st.sampled_from(WORDS.split()), max_size=12).map(" ".join) | st.builds(
    "{} {}".format,
    st.sampled_from([each.rpartition(" ")[0] for each in REFUSED]),
    st.lists(st.sampled_from(WORDS.split()), max_size=5).map(" ".join),
)


@given(sql=STATEMENTS | st.text(max_size=50))
def test_no_statement_changes_anything(sql: str, database: Path) -> None:
    server = query_server(database)
    before = database.read_bytes()

    async def main() -> None:
        try:
            await server.call("query", {"sql": sql})
        except ToolError:
            pass  # and nothing else is raised

    trio.run(main)
    assert database.read_bytes() == before
    assert [each.name for each in database.parent.iterdir()] == [database.name]


# -- how much ---------------------------------------------------------------------------------


async def test_rows_are_limited(server: Registry) -> None:
    found = await server.call("query", {"sql": f"{ENDLESS} SELECT i FROM n"})
    assert found.rows == [[number] for number in range(1, 101)]
    assert found.notes == [
        "Only 100 rows: there are more. Use LIMIT and OFFSET for others.",
    ]
    found = await server.call("query", {"sql": "SELECT 1 UNION SELECT 2", "limit": 2})
    assert (len(found.rows), found.notes) == (2, [])
    for limit in (0, MOST_ROWS + 1):
        with pytest.raises(McpError, match="'limit'"):
            await server.call("query", {"sql": "SELECT 1", "limit": limit})


async def test_bytes_are_limited(server: Registry) -> None:
    wide = f"{ENDLESS} SELECT printf('%.*c', 100000, 'x') FROM n"
    found = await server.call("query", {"sql": wide})
    assert len(found.rows) == 2
    assert found.notes == [f"Only 2 rows: more would be over {MOST_BYTES} bytes."]
    many = ", ".join(["printf('%.*c', 200000, 'x')"] * 2)
    found = await server.call("query", {"sql": f"SELECT {many}"})
    assert (found.rows, len(found.notes)) == ([], 1)
    with pytest.raises(ToolError, match=f"A value may have {MOST_BYTES} bytes"):
        await server.call("query", {"sql": "SELECT hex(printf('%.*c', 200000, 'x'))"})
    with pytest.raises(McpError, match="'sql'"):
        await server.call("query", {"sql": f"SELECT {' ' * 10_000}1"})


@pytest.mark.parametrize(
    "sql",
    [
        f"{ENDLESS} SELECT i, printf('%.*c', 10000, 'x') FROM n ORDER BY 2",
        "SELECT " + ", ".join(["printf('%.*c', 200000, 'x')"] * 330),
    ],
)
async def test_memory_is_limited(sql: str, server: Registry) -> None:
    with pytest.raises(ToolError, match="needs too much memory"):
        await server.call("query", {"sql": sql})
    assert (await server.call("query", {"sql": "SELECT 1"})).rows == [[1]]


# -- how long ---------------------------------------------------------------------------------


async def test_a_question_that_nobody_waits_for_stops(
    server: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = trio.Event()
    must_stop = sqlite.must_stop

    def tell_and_ask() -> int:
        stop = must_stop()
        if not stop:
            trio.from_thread.run_sync(running.set)
        return stop

    monkeypatch.setattr(sqlite, "must_stop", tell_and_ask)
    with trio.fail_after(TIME_LIMIT):
        async with connect(server, limits=Limits(max_worker_threads=1)) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, client, f"{ENDLESS} SELECT count(*) FROM n")
                await running.wait()
                nursery.cancel_scope.cancel()
            # There is one thread, so it has come to an end before this one is served.
            assert (await ask(client, "SELECT 2")).structured_content["rows"] == [[2]]


async def test_a_question_that_takes_too_long_stops(
    server: Registry, autojump_clock: trio.testing.MockClock
) -> None:
    async with connect(server, limits=Limits(max_worker_threads=1)) as client:
        client.tools["query"].timeout = math.inf
        result = await client.call_tool("query", {"sql": f"{ENDLESS} SELECT count(*) FROM n"})
        assert result.error == "Tool query timed out after 10 s"
        autojump_clock.autojump_threshold = math.inf  # from here on threads are waited for
        assert (await ask(client, "SELECT 2")).structured_content["rows"] == [[2]]
