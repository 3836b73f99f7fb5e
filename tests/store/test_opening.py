"""Which store a URL means."""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.redis_server import free_port
from trio_mcp.store.changes import Put
from trio_mcp.store.errors import StoreFull, StoreUnavailable
from trio_mcp.store.memory import MemoryStore
from trio_mcp.store.opening import check_store, open_store
from trio_mcp.store.redis import RedisStore
from trio_mcp.store.sqlite import SQLiteStore


@pytest.mark.parametrize("url", ["memory:", "memory://", "MEMORY:"])
async def test_memory(url: str) -> None:
    async with open_store(url) as store:
        assert isinstance(store, MemoryStore)


@pytest.mark.parametrize("url", ["sqlite:///jobs.db", "SQLite:///jobs.db", "jobs.db", "./jobs.db"])
async def test_a_file_in_the_working_directory(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_store(url) as store:
        assert isinstance(store, SQLiteStore)
    assert [each.name for each in tmp_path.iterdir()] == ["jobs.db"]


@pytest.mark.parametrize("name", ["jobs.db", "with space & 100% é?#.db", ":memory:"])
async def test_a_file_anywhere(name: str, tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/{name}", f"{tmp_path}/{name}", tmp_path / name):
        async with open_store(url) as store:
            await store.commit(Put("a:x", b"", ttl=99))
        assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "url",
    [
        "redis:localhost",
        "mysql://me:secret@localhost",
        "sqlite:",
        "sqlite:///",
        "sqlite://jobs.db",
        "memory:jobs",
        "s3:x",
    ],
)
async def test_what_is_no_store(url: str) -> None:
    with pytest.raises(ValueError, match=r"memory:.*sqlite:///path") as caught:
        async with open_store(url):
            pass
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("host", ["host:99999", "host:secret", "[::1"])
async def test_an_address_that_cannot_be(host: str) -> None:
    url = f"redis://me:secret@{host}/0"
    with pytest.raises(ValueError, match="a host or a port that cannot be") as caught:
        check_store(url)
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="a host or a port that cannot be"):
        async with open_store(url):
            pass


@pytest.mark.parametrize(
    ("name", "meant"),
    [("redis", "redis://localhost:6379/0"), ("Valkey", "redis://"), ("sqlite", "sqlite:///")],
)
async def test_the_name_of_a_kind_is_no_file(
    name: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"the store '{name}' would be a file.*{meant}"):
        check_store(name)
    with pytest.raises(ValueError, match=f"write '{meant}.*'./{name}' for the file"):
        async with open_store(name):
            pass
    assert not list(tmp_path.iterdir())
    async with open_store(f"./{name}"):
        assert (tmp_path / name).exists()
    async with open_store(Path(name)):
        pass


@pytest.mark.parametrize("url", ["", " "])
def test_a_store_without_a_name(url: str) -> None:
    with pytest.raises(ValueError, match="the store has no name"):
        check_store(url)


@pytest.mark.parametrize("kind", ["memory:", "store.db"])
async def test_a_store_has_a_bound(kind: str, tmp_path: Path) -> None:
    url = kind if kind == "memory:" else tmp_path / kind
    async with open_store(url, max_bytes=200_000) as store:
        with pytest.raises(StoreFull):
            await store.commit(Put("a:x", bytes(300_000), ttl=99))


@pytest.mark.parametrize("kind", ["memory:", "store.db"])
async def test_a_store_may_be_said_to_have_no_bound(kind: str, tmp_path: Path) -> None:
    url = kind if kind == "memory:" else tmp_path / kind
    async with open_store(url, max_bytes=math.inf) as store:  # type: ignore[arg-type]
        await store.commit(Put("a:x", bytes(300_000), ttl=99))


@pytest.mark.parametrize("kind", ["memory:", "store.db"])
@pytest.mark.parametrize("bound", [math.nan, -5, 0, True, "7", 1.5])
async def test_what_is_no_bound_is_refused(kind: str, bound: Any, tmp_path: Path) -> None:
    url = kind if kind == "memory:" else tmp_path / kind
    with pytest.raises(ValueError, match=r"^max_bytes must be a whole number"):
        async with open_store(url, max_bytes=bound):
            pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("url", [b"store.db", 5, None, MemoryStore()])
async def test_what_is_no_url_of_a_store_is_refused(url: Any) -> None:
    with pytest.raises(TypeError, match=r"^url must be a URL or a path, not "):
        async with open_store(url):
            pass


def test_sqlite_is_imported_when_a_store_is_opened() -> None:
    program = "import sys, trio_mcp.store.opening; sys.exit('sqlite3' in sys.modules)"
    # Where coverage is measured, that imports it as well.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, check=False, env=plain).returncode == 0


# -- Redis, as far as no server is needed ----------------------------------------------------------


@pytest.fixture
def collecting() -> Iterator[None]:
    yield
    gc.collect()  # what coredis leaves, and not when another test runs


@pytest.mark.parametrize("kind", ["redis", "redis+cluster"])
@pytest.mark.usefixtures("collecting")
async def test_a_server_that_is_not_there(kind: str) -> None:
    port = free_port()
    url = f"{kind}://me:secret@127.0.0.1:{port}"
    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port}") as caught:
        async with RedisStore(url, timeout=0.2).open():
            pass
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("prefix", ["a{b", "a:b", "a%0Ab"])
async def test_what_is_no_prefix(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        async with open_store(f"redis://127.0.0.1?prefix={prefix}"):
            pass


async def test_redis_has_no_bound_of_our_own() -> None:
    with pytest.raises(ValueError, match="maxmemory"):
        async with open_store("redis://127.0.0.1", max_bytes=100):
            pass
