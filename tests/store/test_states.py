"""Whatever is done to a store, in whatever order: tables do what a simple model does."""

from __future__ import annotations

import math
import sqlite3
from typing import Any

from attrs import evolve
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from trio_mcp.store.changes import (
    ABSENT,
    Add,
    Append,
    Change,
    Check,
    Conflict,
    Delete,
    Drop,
    Put,
    Touch,
    check_commit,
)
from trio_mcp.store.memory_tables import MemoryTables
from trio_mcp.store.sqlite_tables import SQLiteTables, prepare

KEYS = ["a:x", "a:y", "a:q/1", "a:q/2", "a:q/3"]
LOGS = ["a:x", "a:log"]

keys = st.sampled_from(KEYS)
logs = st.sampled_from(LOGS)
values = st.sampled_from([b"", b"7", b"value"])
ttls = st.sampled_from([1.0, 3.0, 10.0, math.inf])
delays = st.none() | st.sampled_from([0.0, 2.0, 5.0])
versions = st.sampled_from(["current", "current", "current", "other", ABSENT])
expected = st.sampled_from([None, None, None, "current", "current", "other", ABSENT])
appends = st.builds(
    Append, logs, values, ttl=ttls, limit=st.integers(1, 4), max_bytes=st.integers(1, 12)
)
changes = st.one_of(
    st.builds(Put, keys, values, ttl=ttls, expect=expected, delay=delays),
    st.builds(Touch, keys, ttl=st.none() | ttls, expect=expected, delay=delays),
    st.builds(Delete, keys, expect=expected),
    st.builds(Check, keys, expect=versions),
    st.builds(Add, keys, st.integers(-3, 3), ttl=ttls, limit=st.none() | st.integers(-2, 9)),
    appends,
    st.builds(Drop, logs),
)


def what_it_changes(change: Change) -> tuple[bool, str]:
    return isinstance(change, Append | Drop), change.key


class Model:
    """What the documentation says, in the plainest way: every item of it in one dictionary."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, dict[str, Any]] = {}

    def forget(self, now: float) -> None:
        self.entries = {k: e for k, e in self.entries.items() if e["expires"] > now}
        self.logs = {k: log for k, log in self.logs.items() if log["expires"] > now}

    def allows(self, change: Change) -> bool | None:
        """Whether its condition holds; None if it makes no sense."""
        if isinstance(change, Append | Drop):
            return True
        entry = self.entries.get(change.key)  # type: ignore[union-attr]
        if isinstance(change, Add):
            value = b"0" if entry is None else entry["value"]
            if not value.lstrip(b"-").isdigit():
                return None
            return change.limit is None or int(value) + change.amount <= change.limit
        if isinstance(change, Touch) and entry is None:
            return False
        version = ABSENT if entry is None else entry["version"]
        return change.expect in (None, version)

    def make(self, change: Change, result: int, now: float) -> None:
        match change:
            case Put(key=key, delay=delay):
                due = None if delay is None else now + delay
                self.entries[key] = {
                    "value": change.value,
                    "version": result,
                    "expires": now + change.ttl,
                    "due": due,
                }
            case Touch(key=key):
                entry = self.entries[key]
                assert result == entry["version"]
                if change.ttl is not None:
                    entry["expires"] = now + change.ttl
                if change.delay is not None:
                    entry["due"] = now + change.delay
            case Delete(key=key):
                assert result == self.entries.pop(key, {"version": ABSENT})["version"]
            case Add(key=key):
                entry = self.entries.setdefault(key, {"value": b"0", "expires": now + change.ttl})
                entry["value"] = b"%d" % (int(entry["value"]) + change.amount)
                entry["due"] = None
                assert result == int(entry["value"])
                if result == 0:
                    del self.entries[key]
            case Append(key=name):
                log = self.logs.setdefault(name, {"items": [], "last": 0})
                log["last"] += 1
                log["expires"] = now + change.ttl
                log["items"] = [*log["items"], (log["last"], change.item)][-change.limit :]
                while len(log["items"]) > 1 and size(log["items"]) > change.max_bytes:
                    del log["items"][0]
                assert result == log["last"]
            case Drop(key=name):
                assert result == self.logs.pop(name, {"last": 0})["last"]


def size(items: list[tuple[int, bytes]]) -> int:
    return sum(len(item) for _, item in items)


class Memory(RuleBasedStateMachine):
    """Drives tables in memory and the model side by side."""

    def begin(self) -> None:
        """Begin a transaction."""

    def end(self) -> None:
        """End a transaction."""

    def make(self) -> Any:
        """Make the tables, without anything in them."""
        return MemoryTables()

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.model = Model()
        self.tables: Any = self.make()
        self.versions: dict[str, set[int]] = {key: set() for key in KEYS}

    @rule(wanted=st.lists(changes, min_size=1, max_size=4, unique_by=what_it_changes))
    def commit(self, wanted: list[Change]) -> None:
        made = tuple(map(self.with_version, wanted))
        check_commit(made)
        allowed = [self.model.allows(each) for each in made]
        first = next((each for each in zip(made, allowed, strict=True) if not each[1]), None)
        self.begin()
        try:
            results = self.tables.commit(made, self.now)
        except (Conflict, ValueError) as error:
            refused, allowed_it = first or (None, True)
            assert allowed_it is (False if isinstance(error, Conflict) else None)  # noqa: PT017
            assert refused is getattr(error, "change", refused)  # noqa: PT017
        else:
            assert first is None
            for change, result in zip(made, results, strict=True):
                self.model.make(change, result, self.now)
            for change in made:
                if isinstance(change, Put | Add) and change.key in self.model.entries:
                    self.note(change.key)
        self.end()

    @rule(change=appends)
    def append(self, change: Append) -> None:
        self.commit([change])

    def with_version(self, change: Any) -> Change:
        """Put the version in that is meant."""
        expect = getattr(change, "expect", None)
        if not isinstance(expect, str):
            return change  # type: ignore[no-any-return]
        entry = self.model.entries.get(change.key, {"version": 77})
        version = entry["version"] + (0 if expect == "current" else 1000)
        return evolve(change, expect=version)  # type: ignore[no-any-return]

    def note(self, key: str) -> None:
        """See to it that a new version is larger than all before."""
        version = self.tables.get(key, self.now).version
        assert version > max(self.versions[key], default=0)
        self.versions[key].add(version)
        self.model.entries[key]["version"] = version

    @rule(lease=st.sampled_from([1.0, 4.0]), limit=st.integers(1, 4))
    def claim(self, lease: float, limit: int) -> None:
        self.begin()
        claimed = self.tables.claim("a:q", lease, limit, self.now)
        queue = {
            key: entry
            for key, entry in self.model.entries.items()
            if key.startswith("a:q/") and entry["due"] is not None
        }
        due = sorted((e["due"], key) for key, e in queue.items() if e["due"] <= self.now)[:limit]
        assert [each.key for each in claimed.entries] == [key for _, key in due]
        for each in claimed.entries:
            assert each.value == queue[each.key]["value"]
            queue[each.key]["due"] = self.now + lease
            self.note(each.key)
        next_due = min((e["due"] for e in queue.values()), default=math.inf)
        assert claimed.wait == max(0.0, next_due - self.now)
        self.end()

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 7.0]), swept=st.booleans())
    def time_passes(self, seconds: float, swept: bool) -> None:
        self.now += seconds
        self.model.forget(self.now)
        if swept:
            self.begin()
            self.tables.sweep(self.now, 1)
            self.end()

    @rule(log=logs, after=st.integers(0, 9), limit=st.integers(1, 3), max_bytes=st.integers(1, 9))
    def read(self, log: str, after: int, limit: int, max_bytes: int) -> None:
        page = self.tables.read(log, after, limit, max_bytes, self.now)
        kept = self.model.logs.get(log, {"items": [], "last": 0})
        ahead = [each for each in kept["items"] if each[0] > after][:limit]
        while len(ahead) > 1 and size(ahead) > max_bytes:
            ahead.pop()
        assert page.items == ahead
        assert page.last == kept["last"]
        assert page.first == (kept["items"][0][0] if kept["items"] else 1)

    @rule(limit=st.integers(1, 3))
    def scan(self, limit: int) -> None:
        found: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = self.tables.scan("a:q", cursor, limit, self.now)
            assert len(page.entries) <= limit
            found += [each.key for each in page.entries]
            cursor = page.cursor
        assert found == sorted(key for key in self.model.entries if key.startswith("a:q/"))

    @invariant()
    def entries_are_those_of_the_model(self) -> None:
        for key in KEYS:
            entry, model = self.tables.get(key, self.now), self.model.entries.get(key)
            assert (entry is None) == (model is None)
            if entry is not None and model is not None:
                assert (entry.value, entry.version) == (model["value"], model["version"])
                assert entry.ttl == model["expires"] - self.now

    @invariant()
    def logs_are_those_of_the_model(self) -> None:
        for name in LOGS:
            page = self.tables.read(name, 0, 9, 999, self.now)
            model = self.model.logs.get(name, {"items": [], "last": 0})
            first = model["items"][0][0] if model["items"] else 1
            assert (page.items, page.first, page.last) == (model["items"], first, model["last"])

    def teardown(self) -> None:
        """See that nothing is left of what has expired or was removed."""
        self.tables.sweep(math.inf, 1000)
        for name in LOGS:
            self.tables.drop(name, math.inf)
        for key in KEYS:
            self.tables.save(key, None)
        assert self.tables.size == 0


class SQLite(Memory):
    """Drives those of a database."""

    def begin(self) -> None:
        self.connection.execute("BEGIN")
        self.tables.begin()

    def end(self) -> None:
        self.tables.end()
        self.connection.execute("COMMIT")

    def make(self) -> Any:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        prepare(self.connection)
        return SQLiteTables(self.connection)

    def teardown(self) -> None:
        assert self.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        self.connection.close()


TestMemory, TestSQLite = Memory.TestCase, SQLite.TestCase
TestMemory.settings = TestSQLite.settings = settings(stateful_step_count=40)
