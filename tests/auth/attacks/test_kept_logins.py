"""Files of logins that are damaged, tampered with, or no files: one error, and nothing sent."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.auth.client.world import ISSUER, SERVER, World
from trio_mcp.auth import FileStore
from trio_mcp.errors import AuthorizationError

LOGIN: dict[str, Any] = {
    "issuer": ISSUER,
    "resource": SERVER,
    "client": {"client_id": "c", "redirect_uris": ["http://127.0.0.1:1/callback"]},
    "scopes": ["read"],
    "token": {
        "access_token": "access-secret-0",
        "scheme": "Bearer",
        "expires_at": None,
        "refresh_token": None,
        "scopes": [],
    },
    "dpop_key": None,
}
BAD: dict[str, Any] = {
    "issuer": [5, None, [], "", "nonsense", "https://["],
    "resource": [5, None, {}, "", "nonsense", "https://[", "http://plain.test/"],
    "client": [5, "c", {}, {"client_id": 5}, {"client_id": "c", "redirect_uris": "x"}],
    "scopes": [5, None, [5], [[]]],
    "token": [5, "x", {}, {**LOGIN["token"], "more": 1}],
    "dpop_key": [5, "x", [5], {"a": 5}, {"kty": "EC"}, {"kty": "oct", "k": "AAAA"}],
    "more": [1],
}
BAD_TOKEN: dict[str, Any] = {
    "access_token": [5, None, "", "a\nb: c", "a b", "\xe9", "x" * 1_000_000],
    "scheme": [5, None, "Basic", "Bearer x\r\nHost:"],
    "expires_at": ["5", [], True],
    "refresh_token": [5, "", "a\nb", "x" * 1_000_000],
    "scopes": [5, None, [5]],
}
TEXTS = {
    "nothing": "",
    "no JSON": "{",
    "a number": "5",
    "a list": "[]",
    "no logins": "{}",
    "logins that are none": '{"logins": [5, null]}',
    "deep": '{"logins":' + "[" * 200_000,
    "longer than anything that is read": '{"logins":[]}' + " " * (17 << 20) + "x" * 100,
    **{
        f"{name} is {value!r:.30}": json.dumps({"logins": [{**LOGIN, name: value}]})
        for name, values in BAD.items()
        for value in values
    },
    **{
        f"{name} of the token is {value!r:.30}": json.dumps(
            {"logins": [{**LOGIN, "token": {**LOGIN["token"], name: value}}]}
        )
        for name, values in BAD_TOKEN.items()
        for value in values
    },
}


async def refused(path: Path) -> str:
    """Ask for something with what is kept there, and return why that was not possible."""
    world = World()
    async with world.client(world.oauth(store=FileStore(path))) as client:
        with pytest.raises(AuthorizationError) as caught:
            await client.get(SERVER)
    assert world.requests == [], "nothing was sent"
    return str(caught.value)


async def test_the_file_that_is_spoilt_below_is_sound_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"logins": [LOGIN]}))
    path.chmod(0o600)
    world = World(tokens={"access-secret-0": "read"})
    async with world.client(world.oauth(store=FileStore(path))) as client:
        assert (await client.get(SERVER)).text == "Bearer in"


@pytest.mark.parametrize("what", [each for each in TEXTS if not each.startswith("longer")])
async def test_logins_that_are_damaged(what: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(TEXTS[what])
    path.chmod(0o600)
    said = await refused(path)
    assert "log in again" in said
    assert "secret" not in said


async def test_no_more_is_read_than_so_much(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(TEXTS["longer than anything that is read"])
    path.chmod(0o600)
    assert await FileStore(path).load() == [], "what comes after that is not seen"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
async def test_a_file_that_others_may_read(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"logins": [LOGIN]}))
    path.chmod(mode)
    assert "others may read" in await refused(path)
    (tmp_path / "link.json").symlink_to(path)
    assert "others may read" in await refused(tmp_path / "link.json")


async def test_what_is_no_file(tmp_path: Path) -> None:
    folder, pipe = tmp_path / "folder.json", tmp_path / "pipe.json"
    folder.mkdir()
    os.mkfifo(pipe, 0o600)
    with trio.fail_after(60):
        for path in (folder, pipe):
            assert "it is not a file" in await refused(path)


async def test_a_lock_is_no_way_to_another_file(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".tokens.json.lock").symlink_to(tmp_path / "mine")
    with pytest.raises(AuthorizationError, match="cannot lock"):
        async with FileStore(tmp_path / "tokens.json").locked():
            pass


async def test_a_link_is_replaced_and_what_it_led_to_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text('{"logins": []}')
    elsewhere.chmod(0o600)
    path = tmp_path / "tokens.json"
    path.symlink_to(elsewhere)
    world = World()
    async with world.client(world.oauth(store=FileStore(path))) as client:
        assert (await client.get(SERVER)).status_code == 200
    assert elsewhere.read_text() == '{"logins": []}'
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_process_that_dies_lets_go_of_the_lock(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "tokens.json")

    code = (
        "import fcntl, os, sys; handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600); "
        "fcntl.flock(handle, fcntl.LOCK_EX); print('locked', flush=True); sys.stdin.read()"
    )
    lock = tmp_path / ".tokens.json.lock"
    other = subprocess.Popen(
        [sys.executable, "-S", "-c", code, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        with lock.open("r+") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        other.kill()
        other.wait()
        with trio.fail_after(60):
            async with store.locked():
                pass
    finally:
        other.kill()
        other.communicate()
