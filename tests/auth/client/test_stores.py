"""What is kept, where, and who may read it."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp.auth import FileStore, KeyringStore, Login, MemoryStore, TokenStore
from trio_mcp.auth.client.tokens import Token
from trio_mcp.auth.documents import ClientRegistration
from trio_mcp.errors import AuthorizationError

pytestmark = pytest.mark.requirement("J7")


def login(number: int = 1, **changes: Any) -> Login:
    given: dict[str, Any] = {
        "issuer": f"https://as{number}.test",
        "resource": "https://mcp.test/mcp",
        "client": ClientRegistration(
            client_id="c", client_secret="hush", redirect_uris=["http://127.0.0.1:1/callback"]
        ),
        "scopes": ("a", "b"),
        "token": Token(
            access_token="hush-hush", expires_at=1.5, refresh_token="hush", scopes=("a",)
        ),
        "dpop_key": {"kty": "EC", "d": "hush"},
    }
    return Login(**{**given, **changes})


@pytest.fixture
def fake_keyring(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    kept: dict[tuple[str, str], str] = {}
    errors = types.ModuleType("keyring.errors")
    errors.KeyringError = type("KeyringError", (Exception,), {})  # type: ignore[attr-defined]
    module = types.ModuleType("keyring")
    module.__spec__ = ModuleSpec("keyring", None)
    module.errors = errors  # type: ignore[attr-defined]
    module.get_password = lambda *key: kept.get(key)  # type: ignore[attr-defined]

    def keep(service: str, name: str, text: str) -> None:
        kept[service, name] = text

    module.set_password = keep  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", module)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    return kept


@pytest.fixture(params=["memory", "file", "keyring"])
def store(request: pytest.FixtureRequest, tmp_path: Path, fake_keyring: Any) -> TokenStore:
    made: dict[str, TokenStore] = {
        "memory": MemoryStore(),
        "file": FileStore(tmp_path / "deep" / "tokens.json"),
        "keyring": KeyringStore(),
    }
    return made[request.param]


async def test_what_is_saved_is_loaded(store: TokenStore) -> None:
    assert await store.load() == []
    async with store.locked():
        for number in (1, 2):
            await store.save(login(number))
        await store.save(login(1, token=None, client=None, dpop_key=None))
    assert await store.load() == [login(2), login(1, token=None, client=None, dpop_key=None)]
    async with store.locked():
        await store.remove(login(2))
        await store.remove(login(3))
    assert [each.issuer for each in await store.load()] == ["https://as1.test"]


async def test_one_changes_it_at_a_time(store: TokenStore) -> None:
    async def change(number: int) -> None:
        async with store.locked():
            before = len(await store.load())
            await trio.lowlevel.checkpoint()
            await store.save(login(number))
            assert len(await store.load()) == before + 1

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(change, number)
    assert len(await store.load()) == 10


def test_nothing_of_a_login_is_shown() -> None:
    assert "hush" not in repr(login())


# -- files -----------------------------------------------------------------------------------------


async def test_a_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "tokens.json"
    old = os.umask(0)
    try:
        store = FileStore(path)
        async with store.locked():
            await store.save(login())
    finally:
        os.umask(old)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert modes == {"tokens.json": 0o600, ".tokens.json.lock": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text('{"logins": []}')
    path.chmod(0o640)
    with pytest.raises(AuthorizationError, match="others may read"):
        await FileStore(path).load()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"logins": [{}]}', '{"logins": 1}', "\udcff", "[" * 100_000]
)
async def test_a_file_that_is_none_of_ours_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.touch(0o600)
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(AuthorizationError, match="cannot be read"):
        await FileStore(path).load()


async def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AuthorizationError, match="cannot lock"):
        async with FileStore(tmp_path / "file" / "tokens.json").locked():
            pass


async def test_a_change_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path / "tokens.json")
    async with store.locked():
        await store.save(login(1))

        def fail(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(AuthorizationError, match="No space left"):
            await store.save(login(2))
    assert await store.load() == [login(1)]
    assert sorted(each.name for each in tmp_path.iterdir()) == [".tokens.json.lock", "tokens.json"]


def _add(path: str, numbers: list[int]) -> None:
    async def add() -> None:
        store = FileStore(path)
        for number in numbers:
            async with store.locked():
                await store.save(login(number))

    trio.run(add)


@pytest.mark.long
def test_processes_that_share_a_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    context = multiprocessing.get_context("spawn")
    parts = [list(range(each, 20, 2)) for each in (0, 1)]
    workers = [context.Process(target=_add, args=(str(path), part)) for part in parts]
    for each in workers:
        each.start()
    for each in workers:
        each.join(60)
        assert each.exitcode == 0
    assert len(json.loads(path.read_text())["logins"]) == 20


async def test_who_waits_for_another_can_be_cancelled_and_does_not_wait_forever(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "tokens.json"
    async with FileStore(path).locked():
        with trio.move_on_after(1) as scope:
            async with FileStore(path).locked():
                raise AssertionError
        assert scope.cancelled_caught
        with pytest.raises(AuthorizationError, match="another process"):
            async with FileStore(path).locked():
                raise AssertionError


def test_the_usual_place_is_the_users_folder() -> None:
    path = FileStore().path
    assert path.name == "tokens.json"
    assert "trio-mcp" in path.parts
