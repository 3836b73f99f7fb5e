"""Stores of logins: in memory, in a file that only its owner may read, in the keyring.

A login is kept under its authorization server's issuer and the resource that it opens. A whole
store is one JSON document, and its file is replaced as a whole, so readers see all or nothing of a
change. A change is a read and a write in one `locked` block; a refresh token that may be used once
is used in such a block too.
"""

from __future__ import annotations

import json
import os
import stat
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol, cast

import trio
from attrs import asdict, define, field, frozen

from trio_mcp.auth.client.tokens import Token
from trio_mcp.auth.documents import ClientRegistration, read
from trio_mcp.auth.urls import parsed
from trio_mcp.errors import AuthorizationError
from trio_mcp.extras import check_extra
from trio_mcp.public import public_in
from trio_mcp.system import flags
from trio_mcp.system.locks import try_lock
from trio_mcp.system.private import is_private, write_whole
from trio_mcp.threads import in_thread

LOCK_PATIENCE: Final = 60.0
"""Seconds to wait for another process. It may be asking its authorization server meanwhile."""
_LOCK_PAUSE: Final = 0.05
_MOST_BYTES: Final = 16 << 20


@public_in("trio_mcp.auth")
@frozen(kw_only=True)
class Login:
    """The credentials for one resource.

    Attributes:
        issuer: The authorization server that gave them.
        resource: The resource that they are for.
        client: Our registration with the issuer, if it wants one.
        scopes: All scopes that were asked for.
        token: The token, if there is one.
        dpop_key: The key that the token is bound to, as a JWK, if it is bound.
    """

    issuer: str
    resource: str
    client: ClientRegistration | None = None
    scopes: tuple[str, ...] = ()
    token: Token | None = None
    dpop_key: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def key(self) -> tuple[str, str]:
        """What a login is kept under: the issuer and the resource."""
        return self.issuer, self.resource


@public_in("trio_mcp.auth")
class TokenStore(Protocol):
    """Keeps logins."""

    def locked(self) -> AbstractAsyncContextManager[None]:
        """Let no other task or process change anything for the length of the block.

        Raises:
            AuthorizationError: Another process does not release its lock within a minute.
        """
        ...

    async def load(self) -> list[Login]:
        """Return all logins, the latest last.

        Raises:
            AuthorizationError: They cannot be read.
        """
        ...

    async def save(self, login: Login) -> None:
        """Keep a login, in place of the one for the same issuer and resource, in a `locked` block.

        Raises:
            AuthorizationError: It could not be written.
        """
        ...

    async def remove(self, login: Login) -> None:
        """Remove a login, if it is there, in a `locked` block."""
        ...


@public_in("trio_mcp.auth")
@define(eq=False)
class MemoryStore(TokenStore):
    """Keeps logins in this process."""

    _logins: dict[tuple[str, str], Login] = field(factory=dict, repr=False)
    _lock: trio.Lock = field(factory=trio.Lock, repr=False)

    def locked(self) -> AbstractAsyncContextManager[None]:
        return self._lock

    async def load(self) -> list[Login]:
        return list(self._logins.values())

    async def save(self, login: Login) -> None:
        self._logins.pop(login.key, None)
        self._logins[login.key] = login

    async def remove(self, login: Login) -> None:
        self._logins.pop(login.key, None)


class _DocumentStore(TokenStore):
    """A store that is one text somewhere, read and written in worker threads."""

    @property
    @abstractmethod
    def _place(self) -> str: ...

    @abstractmethod
    def _read(self) -> str | None: ...

    @abstractmethod
    def _write(self, text: str) -> None: ...

    async def load(self) -> list[Login]:
        return await in_thread(self._load, abandon_on_cancel=False)

    def _load(self) -> list[Login]:
        text = self._read()
        return [] if text is None else _loaded(text, self._place)

    async def save(self, login: Login) -> None:
        await self._replace(login, [login])

    async def remove(self, login: Login) -> None:
        await self._replace(login, [])

    async def _replace(self, old: Login, new: list[Login]) -> None:
        logins = [login for login in await self.load() if login.key != old.key] + new
        text = json.dumps({"version": 1, "logins": [asdict(login) for login in logins]})
        await in_thread(self._write, text, abandon_on_cancel=False)


@public_in("trio_mcp.auth")
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

    path: Path = field(converter=Path)
    _lock: trio.Lock = field(factory=trio.Lock, repr=False, init=False)

    @path.default
    def _default_path(self) -> Path:
        import platformdirs

        return platformdirs.user_data_path("trio-mcp") / "tokens.json"

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        async with self._lock:  # one task of ours at a time, and then one process
            handle = self._open_lock()
            try:
                await self._flock(handle)
                yield
            finally:
                os.close(handle)  # which releases the lock

    def _open_lock(self) -> int:
        path = self.path.with_name(f".{self.path.name}.lock")
        with self._failing_to("lock"):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT | flags.NOFOLLOW, 0o600)

    @contextmanager
    def _failing_to(self, act: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise AuthorizationError(f"cannot {act} {self.path}: {error.strerror}") from None

    async def _flock(self, handle: int) -> None:
        # Only a thread could wait for the kernel to release a lock, and could not be cancelled.
        with trio.move_on_after(LOCK_PATIENCE):
            while not try_lock(handle):  # noqa: ASYNC110 - see above
                await trio.sleep(_LOCK_PAUSE)
            return
        raise AuthorizationError(f"another process has held {self.path} for {LOCK_PATIENCE:g} s")

    @property
    def _place(self) -> str:
        return str(self.path)

    def _read(self) -> str | None:
        with self._failing_to("read"), suppress(FileNotFoundError):
            # A pipe would otherwise keep us waiting for its other end.
            handle = os.open(self.path, os.O_RDONLY | flags.NONBLOCK)
            try:
                self._check(os.fstat(handle))
                with open(handle, encoding="utf-8", errors="replace", closefd=False) as file:
                    return file.read(_MOST_BYTES)
            finally:
                os.close(handle)
        return None

    def _check(self, about: os.stat_result) -> None:
        if not stat.S_ISREG(about.st_mode):
            raise AuthorizationError(f"cannot read {self.path}: it is not a file")
        if not is_private(about):
            raise AuthorizationError(
                f"others may read {self.path}: it must be yours, with mode 0600"
            )

    def _write(self, text: str) -> None:
        with self._failing_to("write"):
            write_whole(self.path, text.encode())


@public_in("trio_mcp.auth")
@define(eq=False)
class KeyringStore(_DocumentStore):
    """Keeps logins in the system's keyring (needs `trio-mcp[keyring]`).

    A keyring has no locks: two processes that change it at once may lose a change.

    Args:
        service: The name of the entry.

    Raises:
        ModuleNotFoundError: The package is missing.
    """

    service: str = "trio-mcp"
    _lock: trio.Lock = field(factory=trio.Lock, repr=False, init=False)

    def __attrs_post_init__(self) -> None:
        check_extra("keyring", "KeyringStore", "keyring")

    def locked(self) -> AbstractAsyncContextManager[None]:
        return self._lock

    @property
    def _place(self) -> str:
        return "the keyring"

    def _read(self) -> str | None:
        with _keyring() as keyring:
            return cast(str | None, keyring.get_password(self.service, "logins"))

    def _write(self, text: str) -> None:
        with _keyring() as keyring:
            keyring.set_password(self.service, "logins", text)


@contextmanager
def _keyring() -> Iterator[Any]:
    import keyring
    import keyring.errors

    try:
        yield keyring
    except keyring.errors.KeyringError as error:
        raise AuthorizationError(f"the keyring refuses ({type(error).__name__})") from None


def _loaded(text: str, place: str) -> list[Login]:
    try:
        return [_login(kept) for kept in json.loads(text)["logins"]]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        why = f"the logins in {place} cannot be read; remove them and log in again"
        raise AuthorizationError(why) from None


def _login(kept: dict[str, Any]) -> Login:
    for name in ("issuer", "resource"):
        parsed(kept[name], name)
    client, token = kept["client"], kept["token"]
    return Login(
        **{
            **kept,
            "client": None if client is None else read(ClientRegistration, client, "a client"),
            "token": None if token is None else Token(**{**token, "scopes": _scopes(token)}),
            "scopes": _scopes(kept),
        }
    )


def _scopes(kept: dict[str, Any]) -> tuple[str, ...]:
    if not all(isinstance(scope, str) for scope in kept["scopes"]):
        raise ValueError("scopes are not texts")
    return tuple(kept["scopes"])
