"""State that travels through the client and comes back as it left.

A request that needs more input is answered and forgotten; what its second round has to know goes
to the client as an opaque `requestState`, and the client is not to be trusted with it (2026-07-28,
"Multi Round-Trip Requests", server requirements 4 and 5). So a state is a Fernet token: encrypted,
authenticated, and written in one way only. Before it stands the name of its key. Within, beside the
content, it says until when it is good, for which request and principal it was made (a digest of
whatever the server binds it to), and its own random number, by which a second use is noticed.

Fernet would take a token with a few characters more, or with other last bits: its base64 is read
leniently. Here a state must be, character for character, what its bytes encode to.

Expiry is part of the sealed payload and is judged by our own clock, so Fernet's time stamp is
written but not asked.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

from attrs import frozen

from trio_mcp.extras import needing
from trio_mcp.wire import codec
from trio_mcp.wire.jsonrpc import Json

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

Cause = Literal["tampered", "unknown key", "expired", "foreign", "replayed"]

_PURPOSE: Final = "trio-mcp request state 1"
_NAME: Final = 8
"""Characters that name the key, before the token."""
_VERSION: Final = b"\x80"
"""With which each token begins."""
_LONGEST: Final = 256 * 1024
"""Characters of a state: more are neither sealed nor looked at."""

_KEY_BYTES: Final = 32
_NO_KEY: Final = (
    "a key is 32 bytes in URL-safe base64 (44 characters); make one with "
    "cryptography.fernet.Fernet.generate_key()"
)


class StateRefused(ValueError):
    """A state that came back cannot be trusted.

    Its text is the same whatever the reason, so that trying states out teaches nothing; the reason
    is for the log.

    Args:
        cause: Which check failed.
        detail: The same in a few words.
    """

    cause: Cause
    """`tampered` (it is not as it was sealed), `unknown key` (it was sealed with another),
    `expired`, `foreign` (for another request, principal or purpose), or `replayed` (used before,
    or too many were)."""

    def __init__(self, cause: Cause, detail: str) -> None:
        super().__init__("The request state is not acceptable; send the request again, without it.")
        self.cause = cause
        self.__cause__ = ValueError(f"{cause}: {detail}")


@frozen
class OpenedState:
    """A state that is good, unless it was used before."""

    id: str
    """Its random number, and its owner."""
    seconds: float
    """For how long it is good."""
    content: Json

    @property
    def owner(self) -> str:
        """The owner that it was made for, to whose share it counts."""
        return self.id.partition(" ")[2]


class Sealer:
    """Seals state before it goes to a client, and opens what comes back.

    May be used from several threads. It opens a state as often as it is asked to: what must happen
    at most once needs a record of what was opened, by `OpenedState.id`.

    Args:
        keys: The first one seals, all of them open, so that keys can be changed without losing
            what is under way: put the new one first, and drop the old one after `ttl`. Without
            keys a random one is made, and states are lost when the process ends.
        ttl: Seconds that a state is good for.
        clock: Tells the time, in seconds; processes that share keys need clocks that agree.

    Raises:
        ValueError: A key is unusable (the message says how to make one), or a number is out of
            range.
        RuntimeError: There are keys, but the package `cryptography` is not installed. Without
            keys it is not imported, and not missed, before the first state.

    Example:
        >>> sealer = Sealer([Sealer.generate_key()])
        >>> sealer.open(sealer.seal({"step": 2}, "tools/call"), "tools/call").content
        {'step': 2}
    """

    def __init__(
        self,
        keys: Sequence[bytes | str] | None = None,
        *,
        ttl: float = 600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not (ttl > 0 and math.isfinite(ttl)):
            raise ValueError(f"ttl must be a number of seconds above 0, not {ttl!r}")
        self.ttl: Final = ttl
        self._clock = clock
        self._made: dict[str, Fernet] | None = None
        check_keys(keys)
        self._keys = [self.generate_key()] if keys is None else list(keys)
        if keys is not None:
            self._fernets()

    @staticmethod
    def generate_key() -> str:
        """Make a random key, for `keys`. With the key, states can be made and read."""
        return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()

    def check_ready(self) -> None:
        """Raise `RuntimeError` unless the package `cryptography` is installed."""
        self._fernets()

    def seal(self, content: Json, binding: Json | HashedBinding, owner: str = "") -> str:
        """Seal a state, for `requestState`.

        Args:
            content: What to remember. The client can neither read nor change it.
            binding: What the state is good for: everything that must be the same when it comes
                back, such as server, method, tool, arguments and principal. Objects are compared
                without regard to order, and numbers by their value.
            owner: To whose share of what is remembered as used it counts.

        Raises:
            TypeError: One of them is not JSON.
            ValueError: The state would have more than 256 KiB.
            RuntimeError: The package `cryptography` is not installed.
        """
        now = self._clock()
        state, least = "", 0
        with suppress(RecursionError):  # which is raised as another where it is written
            least = _least_length(content, _LONGEST)
        if least <= _LONGEST:  # what is much is not worked on for nothing
            digest = hash_binding(binding).digest
            id = f"{secrets.token_hex(16)} {owner}"
            payload = _write([_PURPOSE, id, now + self.ttl, digest, content])
            name, fernet = next(iter(self._fernets().items()))
            state = name + fernet.encrypt_at_time(payload, int(now)).decode()
        if not 0 < len(state) <= _LONGEST:
            raise ValueError(
                f"the sealed state would have more than {_LONGEST} characters; "
                "keep large data on the server, and seal only what is needed to find it"
            )
        return state

    def open(self, state: str, binding: Json | HashedBinding) -> OpenedState:
        """Open a state that a client presents, and leave it to the caller to note its use.

        Raises:
            StateRefused: It was altered, is out of date, or belongs to another request.
            TypeError: The binding is not JSON.
        """
        now = self._clock()
        sealed = self._decrypt(state)
        try:
            purpose, id, expires, digest, content = json.loads(sealed)
        except (ValueError, TypeError):
            purpose = None
        if purpose != _PURPOSE:  # the same key may seal other things elsewhere
            raise StateRefused("foreign", "it was sealed for another purpose")
        if now >= expires:
            raise StateRefused("expired", f"it was good until {expires:.0f}")
        if digest != hash_binding(binding).digest:  # after all that costs less: it may be long
            raise StateRefused("foreign", "it was sealed for another request or principal")
        return OpenedState(id, expires - now, content)

    def _decrypt(self, state: str) -> bytes:
        fernets = self._fernets()
        from cryptography.fernet import InvalidToken

        if not isinstance(state, str):
            raise StateRefused("tampered", "it is not a string")
        if len(state) > _LONGEST:
            raise StateRefused("tampered", f"it is longer than {_LONGEST} characters")
        name, token = state[:_NAME], state[_NAME:]
        if not _is_canonical(token):
            raise StateRefused("tampered", "it is not written as we write it")
        if name not in fernets:
            raise StateRefused(
                "unknown key",
                "it was sealed by a key that this process does not have: give all that serve the "
                "same clients the same state_keys, or a store",
            )
        with suppress(InvalidToken):
            return fernets[name].decrypt(token)
        raise StateRefused("tampered", "it is not what its key has sealed")

    def _fernets(self) -> dict[str, Fernet]:
        """Return what seals and opens, by the names of the keys. The first one seals."""
        if self._made is None:
            with needing("sealing request state", "ask"):
                from cryptography.fernet import Fernet
            self._made = {_name_of(key): Fernet(key) for key in self._keys}
        return self._made


def check_keys(keys: Sequence[str | bytes] | None, name: str = "keys") -> None:
    """Raise `ValueError` unless these are keys, and what to do; no key is in the message."""
    if keys is None:
        return
    if isinstance(keys, bytes | str):
        raise ValueError(f"{name} must be a list, even of one key: put it in brackets")
    if not keys:
        raise ValueError(f"there must be a key in {name}, or leave {name} out: {_NO_KEY}")
    try:
        for key in keys:
            if len(base64.urlsafe_b64decode(key)) != _KEY_BYTES:
                raise ValueError
    except (ValueError, TypeError, AttributeError):  # the key itself belongs in no message
        raise ValueError(f"one of the {name} is not usable: {_NO_KEY}") from None


def _name_of(key: bytes | str) -> str:
    """Name a key without giving it away."""
    secret = base64.urlsafe_b64decode(key)
    return hashlib.sha256(_PURPOSE.encode() + secret).hexdigest()[:_NAME]


def _is_canonical(token: str) -> bool:
    """Whether this is the one way to write its bytes, which are at least those of a token."""
    try:
        content = base64.urlsafe_b64decode(token)
    except ValueError:  # no base64, or not even ASCII
        return False
    return content[:1] == _VERSION and base64.urlsafe_b64encode(content).decode() == token


# JSON ---------------------------------------------------------------------------------------


@frozen
class HashedBinding:
    """A binding that was hashed already, which takes a second where it is 10 MB of numbers."""

    digest: str


def hash_binding(binding: Json | HashedBinding) -> HashedBinding:
    """Hash what a state is bound to: equal JSON values have the same digest.

    Raises:
        TypeError: It is not JSON.
    """
    if isinstance(binding, HashedBinding):
        return binding
    text = _sorted(binding)
    if b".0" in text or b"e+" in text:  # JSON has one kind of number: a client may send 1 for 1.0
        text = _sorted(json.loads(text, parse_float=_whole))
    return HashedBinding(hashlib.sha256(text).hexdigest())


def _sorted(value: Json) -> bytes:
    with suppress(TypeError):
        text = codec.dumps(value, option=codec.SORTED | codec.PLAIN)
        if b"null" not in text or codec.loads(text) == value:  # it writes NaN as null
            return text
    return _write(value, sort_keys=True)  # an integer of more than 64 bits, or no JSON


def _whole(number: str) -> int | float:
    value = float(number)
    return int(value) if value.is_integer() else value


def _write(value: Json, sort_keys: bool = False) -> bytes:
    try:
        _check_keys(value)
        text = json.dumps(value, allow_nan=False, sort_keys=sort_keys, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"what is sealed must be JSON: {error}") from None
    return text.encode()


def _check_keys(value: Json) -> None:
    """Refuse keys that are not strings: `json` would make strings of them."""
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str):
                raise TypeError(f"keys must be strings, not {type(key).__name__}")
            _check_keys(each)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_keys(inner)


def _least_length(value: Json, limit: int) -> int:
    """How many characters the JSON of a value has at least; no more than `most` is looked at."""
    if isinstance(value, str):
        return len(value)
    length = 1
    if isinstance(value, dict | list | tuple):
        length += len(value)
        for inner in value.values() if isinstance(value, dict) else value:
            if length > limit:
                break
            length += _least_length(inner, limit - length)
    return length
