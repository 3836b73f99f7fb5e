"""State that lasts from call to call, for a session, a caller or a handle: kept in a store.

A state is one entry, in a partition of its own. What it has is a line each, by its key: so what
two calls have changed is put together key by key, and of the same key the last one written counts.
The first line says to whose share it counts.

What is read lasts longer only once it is about to expire, so a call that changes nothing costs one
look.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Set
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from attrs import define, field, frozen

from trio_mcp.errors import StoreError, StoreFull
from trio_mcp.loggers import logger_of
from trio_mcp.public import public_in
from trio_mcp.schema import ArgumentError, FunctionSchema, SchemaError, compile_validator
from trio_mcp.store.changes import ABSENT, Conflict, Delete, Entry, Put, Touch, key_part
from trio_mcp.store.exact import dumps, loads
from trio_mcp.store.quota import Quota
from trio_mcp.threads import offload
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError, ToolError
from trio_mcp.wire.safe_repr import safe_repr

if TYPE_CHECKING:
    from trio_mcp.store.protocol import Store
    from trio_mcp.wire.limits import Limits

logger = logger_of("trio_mcp")

StateScope = Literal["session", "caller", "handle", "new handle"]
"""What a state belongs to."""

_HANDLE: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_SHARE: Final = 0.1
_LONGER: Final = 1.01
"""So much longer than unused states have to last they do: they are not renewed by each call."""

_GONE: Final = (
    "There is no state with this handle: it never was, is not yours, or has expired. Get another "
    "handle, and begin again"
)
_AWAY: Final = "The server cannot use its store of states now; try again later"


@public_in("trio_mcp.testing")
class KeptState(dict[str, Any]):
    """What lasts from call to call (`Context.state`): JSON values, by names.

    What a call has changed is kept when it returns. It is not if the call fails, is cancelled or
    takes too long.

    Example:
        >>> @registry.tool(state="caller")
        ... async def remember(note: str, context: Context) -> int:
        ...     context.state.setdefault("notes", []).append(note)
        ...     return len(context.state["notes"])
    """

    handle: str | None = None
    """The handle, where it belongs to one."""
    ended: bool = False
    """Whether it is to be removed."""
    _opened: OpenState | None = None

    def end(self) -> None:
        """Have the state removed when the call returns. Its handle is good no more then."""
        self.clear()
        self.ended = True


@frozen
class StateKeeper:
    """Keeps the states of the one who sends a request.

    Args:
        registry: The name of the registry that the states are of.
        store: Where they are.
        limits: What they may take up, and how long they last.
        principal: Whose token the request came with.
        connection: The connection or session; `None` where there is none.
        owner: To whose share the states count; empty where there is but one owner.
    """

    registry: str
    store: Store = field(repr=False)
    limits: Limits
    principal: str | None
    connection: str | None
    owner: str

    async def open(self, label: str, scope: StateScope, arguments: Mapping[str, Any]) -> OpenState:
        """Read a state, or begin one.

        Args:
            label: What keeps the state, for the caller.
            scope: What it belongs to.
            arguments: Of the call; with `"handle"`, one of them may be the handle.

        Raises:
            ToolError: The request does not say whose state it is, or there is none with its handle.
            McpError: The store cannot be used (`-32603`).
        """
        handle: Any = arguments.get("handle") if scope == "handle" else None
        begins = handle is None and scope in ("handle", "new handle")
        if begins:
            handle = _new_handle()
        elif scope == "handle" and not (isinstance(handle, str) and _HANDLE.fullmatch(handle)):
            raise ToolError(_GONE)
        found = OpenState(self, self._id(label, scope, handle), begins)
        found.state.handle = handle
        if not begins:
            await found.read()
            if handle is not None and not found.version:
                raise ToolError(_GONE)
        return found

    def _id(self, label: str, scope: StateScope, handle: str | None) -> str:
        """Return what a state is found by: nothing that its owner could choose or guess."""
        if handle is not None:
            return key_part(repr((self.registry, "handle", self.principal, handle)))
        if scope == "caller" and self.principal is not None:
            return key_part(repr((self.registry, "caller", self.principal)))
        if self.connection is None:
            raise ToolError(_UNKNOWN[scope].format(label=label))
        return key_part(repr((self.registry, scope, self.principal, self.connection)))

    def quotas(self, owner: str) -> list[Quota]:
        """Return what counts a state: with all others, and with those of its owner."""
        registry, limit = key_part(self.registry)[:16], self.limits.max_states
        whole = Quota(self.store, "states", registry, limit, self.ttl)
        if not owner:
            return [whole]
        part = max(1, int(limit * _SHARE)) if limit < inf else inf
        return [Quota(self.store, "states", f"{registry}-{owner}", part, self.ttl), whole]

    @property
    def ttl(self) -> float:
        return self.limits.state_idle * _LONGER

    async def remove(self, id: str, counted: Quota | None = None) -> None:
        """Remove a state, and count it no longer.

        Args:
            id: Which.
            counted: What counts it, even if it has expired.
        """
        entry = await self.store.get(_key(id))
        quotas = [] if counted is None else [counted]
        if entry is not None:
            quotas = self.quotas(_owner_in(entry.value))
            await self.store.commit(Delete(entry.key))
        for quota in quotas:
            await quota.remove(id)


_UNKNOWN: Final = {
    "caller": "{label} keeps state for each caller, and this request does not say who calls: send "
    "an access token, or begin a session (before 2026-07-28). Its author can do without, with "
    'state="handle"',
    "session": "{label} keeps state for each session, and this request belongs to none: over HTTP, "
    'there are none since 2026-07-28. Its author can do without, with state="handle"',
}


def check_scope(scope: Any, described: FunctionSchema, is_read: bool) -> StateScope:
    """Return what the state of an entry belongs to, or raise `SchemaError`.

    Args:
        scope: What its author gave.
        described: Its function.
        is_read: Whether its function, or what fills its parameters, takes a context.
    """
    known: tuple[StateScope, ...] = get_args(StateScope)
    if scope not in known:
        raise SchemaError(f"state must be one of {', '.join(map(repr, known))}, not {scope!r:.100}")
    if not is_read:
        raise SchemaError(
            f"state={scope!r} is for a function that takes a context, in which the state is; add "
            "context: Context, or take state= away"
        )
    if scope == "handle":
        _check_handle(described)
    return known[known.index(scope)]


def _check_handle(described: FunctionSchema) -> None:
    if "handle" not in described.input_schema.get("properties", {}):
        raise SchemaError(
            'state="handle" is for a function with a parameter handle, by which callers name the '
            'state; one that gives a handle out has state="new handle"'
        )
    if not _takes(described, {"handle": _new_handle()}):
        raise SchemaError(
            'state="handle": the parameter handle does not take a handle as it is, which is a '
            "text; annotate it handle: str"
        )


def _takes(described: FunctionSchema, arguments: dict[str, Any]) -> bool:
    """Whether a function gets an argument as it comes, which the schema lets through."""
    schema = {**described.checked_schema, "required": []}
    try:
        fits = compile_validator(schema, inferred=True)(arguments) is None
        return fits and described.structure(arguments) == arguments
    except ArgumentError:
        return False


def _new_handle() -> str:
    return secrets.token_urlsafe(16)


def _key(id: str) -> str:
    return f"state-{id}:value"


def _owner_in(kept: bytes) -> str:
    return kept.partition(b"\n")[0].decode()


def _lines_of(state: Mapping[str, Any]) -> dict[str, bytes]:
    """Write what is in a state, a line each by its key; raise `TypeError` for what is not JSON."""
    lines = {}
    for name, value in state.items():
        try:
            line = dumps([name, value])
            is_json = type(name) is str and loads(line) == [name, value]
        except (TypeError, ValueError, RecursionError):  # endless, or very deep
            is_json = False
        if not is_json:
            raise TypeError(
                f"what is kept must be JSON, with strings as keys and lists instead of tuples: "
                f"state[{safe_repr(name)}] is not ({type(value).__name__})"
            )
        lines[name] = line
    return lines


def _read(kept: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read what is in a state, and the line of each key."""
    lines = kept.split(b"\n")[1:]
    values = dict(map(loads, lines))
    return values, dict(zip(values, lines, strict=True))


def _changes(lines: dict[str, bytes], known: dict[str, bytes]) -> tuple[dict[str, bytes], Set[str]]:
    """Return the lines that are other ones than before, and the keys that are there no more."""
    changed = {name: line for name, line in lines.items() if known.get(name) != line}
    return changed, known.keys() - lines.keys()


def _joined(
    known: dict[str, bytes], changed: dict[str, bytes], removed: Set[str], owner: str
) -> tuple[dict[str, bytes], bytes]:
    """Apply changes to the lines of a state, and write it as a whole."""
    kept = {**known, **changed}
    for name in removed:
        kept.pop(name, None)
    return kept, b"\n".join([owner.encode(), *kept.values()])


@define(eq=False, repr=False)
class OpenState:
    """One state, while a call works with it."""

    _keeper: StateKeeper
    _id: str
    _is_new: bool
    state: KeptState = field(factory=KeptState)
    version: int = ABSENT
    _ttl: float = 0.0
    _owner: str = ""
    _known: dict[str, bytes] = field(factory=dict)
    """What it had when it was last read or written."""

    def __attrs_post_init__(self) -> None:
        owner = self._keeper.owner
        self._owner = key_part(owner)[:16] if owner else ""
        self.state._opened = self

    async def read(self) -> None:
        """Read it.

        Raises:
            McpError: The store cannot be used (`-32603`).
        """
        try:
            self.state.update(await self._look())
        except StoreError as error:
            raise _unavailable(error) from None

    async def _look(self) -> dict[str, Any]:
        entry: Entry | None = await self._keeper.store.get(_key(self._id))
        if entry is None:
            self.version, self._ttl, self._known = ABSENT, 0.0, {}
            return {}
        self.version, self._ttl = entry.version, entry.ttl
        self._owner = _owner_in(entry.value)
        values, self._known = await offload(_read, entry.value)
        return values

    async def save(self) -> None:
        """Keep what has changed since it was last read or saved.

        Raises:
            TypeError: Something in it is not JSON.
            ToolError: It is too long, or there is no room; or its handle is good no more.
            McpError: The store cannot be used (`-32603`).
        """
        try:
            if self.state.ended:
                await self._keeper.remove(self._id)
            else:
                await self._save(await offload(_lines_of, self.state))
        except StoreFull as error:
            logger.warning("%s", error)
            raise ToolError("There is no room for more state now; try again later") from None
        except StoreError as error:
            raise _unavailable(error) from None

    async def _save(self, lines: dict[str, bytes]) -> None:
        changed, removed = await offload(_changes, lines, self._known)
        is_shared = False
        while changed or removed or self._is_new:
            kept, value = await offload(_joined, self._known, changed, removed, self._owner)
            try:
                await self._write(kept, value)
            except Conflict:  # another call has changed it meanwhile
                is_shared = True
                await self._look()
                if self.state.handle is not None and not self.version:
                    raise ToolError(_GONE) from None
            else:
                if is_shared:
                    self._take(lines)
                return
        if self.version and self._ttl < self._keeper.limits.state_idle:
            await self._renew()

    async def _write(self, lines: dict[str, bytes], value: bytes) -> None:
        """Write it as a whole, or raise `Conflict`."""
        keeper, id = self._keeper, self._id
        limit = keeper.limits.max_state_bytes
        if len(value) > limit:
            raise ToolError(
                f"There is no room for this: what is kept would take {len(value):,} bytes, of "
                f"{limit:,}. Have something removed first"
            )
        if not self.version:
            for quota in keeper.quotas(self._owner):
                for other in await quota.add(id):
                    await keeper.remove(other, quota)
        is_old = self._ttl < keeper.limits.state_idle
        ttl = keeper.ttl if is_old else self._ttl
        put = Put(_key(id), value, ttl=ttl, expect=self.version)
        if is_old and self.version:
            await self._sign()
        (self.version,) = await keeper.store.commit(put)
        self._ttl, self._known, self._is_new = ttl, lines, False

    def _take(self, lines: dict[str, bytes]) -> None:
        """Show what other calls have changed meanwhile, too."""
        for name in lines.keys() - self._known.keys():
            self.state.pop(name, None)
        others = [line for name, line in self._known.items() if lines.get(name) != line]
        self.state.update(loads(line) for line in others)

    async def _renew(self) -> None:
        try:
            await self._keeper.store.commit(Touch(_key(self._id), ttl=self._keeper.ttl))
        except Conflict:  # it has expired, or was removed
            return
        await self._sign()

    async def _sign(self) -> None:
        for quota in self._keeper.quotas(self._owner):
            await self._keeper.store.commit(quota.sign(self._id))


def _unavailable(error: StoreError) -> McpError:
    logger.warning("%s", error)
    return McpError(INTERNAL_ERROR, _AWAY)
