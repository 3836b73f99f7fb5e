"""Where logins are kept: in memory, in a file that only its owner may read, in the keyring.

A login is kept under its authorization server's issuer and the resource that it opens. All of a
store is one JSON document, so that a file is replaced as a whole: whoever reads sees all or
nothing of a change. Who changes something reads first and writes then, in one `locked` block; a
refresh token that may be used once is used in such a block too.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import trio
from attrs import asdict, define, field, frozen

from trio_mcp.auth.client.tokens import Token
from trio_mcp.auth.documents import ClientRegistration, read
from trio_mcp.auth.urls import parsed
from trio_mcp.errors import AuthorizationError
from trio_mcp.extras import check_extra
from trio_mcp.public import public
from trio_mcp.system import flags
from trio_mcp.system.locks import try_lock
from trio_mcp.system.private import is_private, write_whole

LOCK_PATIENCE: Final = 60.0
"""Seconds to wait for another process. It may be asking its authorization server meanwhile."""
_LOCK_PAUSE: Final = 0.05
_MOST_BYTES: Final = 16 << 20


@public
@frozen(kw_only=True)
class Login:
    """What opens one resource.

    Attributes:
        issuer: Who let us in.
        resource: What it opens.
        client: Who we are to the issuer, if it wants to know.
        scopes: What was asked for, in all.
        token: What was given.
        dpop_key: The key that the token is bound to, if it is, as a JWK.
    """

    issuer: str
    resource: str
    client: ClientRegistration | None = None
    scopes: tuple[str, ...] = ()
    token: Token | None = None
    dpop_key: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def key(self) -> tuple[str, str]:
        """What it is kept under."""
        return self.issuer, self.resource


@public
class TokenStore(Protocol):
    """Keeps logins."""

    def locked(self) -> AbstractAsyncContextManager[None]:
        """Keep others from changing anything for the length of the block."""
        ...

    async def load(self) -> list[Login]:
        """Read what is kept, latest last."""
        ...

    async def save(self, login: Login) -> None:
        """Keep a login, in place of the one for the same issuer and resource, in a `locked` block.

        Raises:
            AuthorizationError: It could not be written.
        """
        ...

    async def remove(self, login: Login) -> None:
        """Forget a login, in a `locked` block. One that is not there is no mistake."""
        ...


@public
@define(eq=False)
class MemoryStore:
    """Keeps logins as long as it lives itself."""

    _logins: dict[tuple[str, str], Login] = field(factory=dict, repr=False)
    _lock: trio.Lock = field(factory=trio.Lock, repr=False)

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """See `TokenStore`."""
        async with self._lock:
            yield

    async def load(self) -> list[Login]:
        """See `TokenStore`."""
        return list(self._logins.values())

    async def save(self, login: Login) -> None:
        """See `TokenStore`."""
        self._logins.pop(login.key, None)
        self._logins[login.key] = login

    async def remove(self, login: Login) -> None:
        """See `TokenStore`."""
        self._logins.pop(login.key, None)


class _DocumentStore:
    """A store that is one text somewhere."""

    @property
    def _place(self) -> str:
        raise NotImplementedError

    def _read(self) -> str | None:
        raise NotImplementedError

    def _write(self, text: str) -> None:
        raise NotImplementedError

    async def load(self) -> list[Login]:
        """See `TokenStore`.

        Raises:
            AuthorizationError: It cannot be read.
        """
        return await trio.to_thread.run_sync(self._load)

    def _load(self) -> list[Login]:
        text = self._read()
        return [] if text is None else _loaded(text, self._place)

    async def save(self, login: Login) -> None:
        """See `TokenStore`."""
        await self._replace(login, [login])

    async def remove(self, login: Login) -> None:
        """See `TokenStore`."""
        await self._replace(login, [])

    async def _replace(self, old: Login, new: list[Login]) -> None:
        others = [each for each in await self.load() if each.key != old.key]
        text = _dumped(others + new)
        await trio.to_thread.run_sync(self._write, text)


@public
@define(eq=False)
class FileStore(_DocumentStore):
    """Keeps logins in a file with mode 0600, which several processes may share.

    Windows knows no modes. There the file is as private as its folder; the default one is within
    the user's profile, which only the user and administrators can read.

    Args:
        path: The file; by default `tokens.json` in the user's folder for data of `trio-mcp`.

    Example:
        >>> FileStore("/tmp/tokens.json").path.name
        'tokens.json'
    """

    path: Path = field(factory=lambda: _data_folder() / "tokens.json", converter=Path)
    _lock: trio.Lock = field(factory=trio.Lock, repr=False, init=False)

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """See `TokenStore`.

        Raises:
            AuthorizationError: Another process does not let go of it within a minute.
        """
        async with self._lock:  # one task of ours at a time, and then one process
            handle = self._open_lock()
            try:
                await self._flock(handle)
                yield
            finally:
                os.close(handle)  # which lets go of it

    def _open_lock(self) -> int:
        path = self.path.with_name(f".{self.path.name}.lock")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT | flags.NOFOLLOW, 0o600)
        except OSError as error:
            raise AuthorizationError(f"cannot lock {self.path}: {error.strerror}") from None

    async def _flock(self, handle: int) -> None:
        # The kernel tells nobody when a lock is free, except who blocks a thread on it, which
        # could then not be cancelled.
        with trio.move_on_after(LOCK_PATIENCE):
            while not try_lock(handle):  # noqa: ASYNC110 - see above
                await trio.sleep(_LOCK_PAUSE)
            return
        raise AuthorizationError(f"another process has held {self.path} for {LOCK_PATIENCE:g} s")

    @property
    def _place(self) -> str:
        return str(self.path)

    def _read(self) -> str | None:
        try:
            # A pipe would otherwise keep us waiting for its other end.
            handle = os.open(self.path, os.O_RDONLY | flags.NONBLOCK)
            try:
                self._check(os.fstat(handle))
                with open(handle, encoding="utf-8", errors="replace", closefd=False) as file:
                    return file.read(_MOST_BYTES)
            finally:
                os.close(handle)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AuthorizationError(f"cannot read {self.path}: {error.strerror}") from None

    def _check(self, about: os.stat_result) -> None:
        if not stat.S_ISREG(about.st_mode):
            raise AuthorizationError(f"cannot read {self.path}: it is no file")
        if not is_private(about):
            raise AuthorizationError(
                f"others may read {self.path}: it must be yours, with mode 0600"
            )

    def _write(self, text: str) -> None:
        try:
            write_whole(self.path, text.encode())
        except OSError as error:
            raise AuthorizationError(f"cannot write {self.path}: {error.strerror}") from None


@public
@define(eq=False)
class KeyringStore(_DocumentStore):
    """Keeps logins in the system's keyring (needs `trio-mcp[keyring]`).

    A keyring has no locks: two processes that change it at once may lose a change.

    Args:
        service: What the entry is called there.

    Raises:
        ModuleNotFoundError: The package is missing.
    """

    service: str = "trio-mcp"
    _lock: trio.Lock = field(factory=trio.Lock, repr=False, init=False)

    def __attrs_post_init__(self) -> None:
        check_extra("keyring", "KeyringStore", "keyring")

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """See `TokenStore`."""
        async with self._lock:
            yield

    @property
    def _place(self) -> str:
        return "the keyring"

    def _read(self) -> str | None:
        keyring = _keyring()
        try:
            text: str | None = keyring.get_password(self.service, "logins")
            return text
        except keyring.errors.KeyringError as error:
            raise AuthorizationError(f"the keyring refuses ({type(error).__name__})") from None

    def _write(self, text: str) -> None:
        keyring = _keyring()
        try:
            keyring.set_password(self.service, "logins", text)
        except keyring.errors.KeyringError as error:
            raise AuthorizationError(f"the keyring refuses ({type(error).__name__})") from None


def _keyring() -> Any:
    import keyring
    import keyring.errors

    return keyring


def _data_folder() -> Path:
    import platformdirs

    return platformdirs.user_data_path("trio-mcp")


def _dumped(logins: Iterable[Login]) -> str:
    return json.dumps({"version": 1, "logins": [asdict(each) for each in logins]})


def _loaded(text: str, place: str) -> list[Login]:
    try:
        return [_login(each) for each in json.loads(text)["logins"]]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise AuthorizationError(
            f"the logins in {place} cannot be read; remove them and log in anew"
        ) from None


def _login(kept: dict[str, Any]) -> Login:
    for name in ("issuer", "resource"):
        parsed(kept[name], name)
    token = kept["token"]
    if token is not None:
        token = Token(**{**token, "scopes": _scopes(token)})
    client = kept["client"]
    if client is not None:
        client = read(ClientRegistration, client, "a registration")
    return Login(**{**kept, "client": client, "token": token, "scopes": _scopes(kept)})


def _scopes(kept: dict[str, Any]) -> tuple[str, ...]:
    scopes = tuple(kept["scopes"])
    if not all(isinstance(each, str) for each in scopes):
        raise ValueError("scopes are no texts")
    return scopes
