"""Finding out which era a server is of (2026-07-28, "Backward Compatibility" of each transport).

A modern server answers `server/discover`, or refuses the version with `-32022` and names others.
Any other error means a legacy server, and so does silence; but a server that is only slow to
start must not be taken for an old one. So `initialize` is sent when the probe has failed or has
gone unanswered for a while, and then the first good answer counts, whichever it is.

Over HTTP every request gets a response, and silence says nothing: there `initialize` waits until
the probe has failed, with an error or with a status that says that it was not understood.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

import trio
from attrs import field, frozen

from trio_mcp.client.transport import ClientTransport
from trio_mcp.errors import HttpError, ProtocolError, RateLimited, RequestTooLarge, Unauthorized
from trio_mcp.threads import offload
from trio_mcp.wire import revisions
from trio_mcp.wire.conversion import from_wire, to_wire
from trio_mcp.wire.errors import (
    HEADER_MISMATCH,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
    McpError,
)
from trio_mcp.wire.handshake import DiscoverResult, InitializeParams, InitializeResult
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.payloads import Implementation
from trio_mcp.wire.revisions import (
    LEGACY,
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_SERVER_INFO,
    META_VERSION,
    MODERN,
    NEWEST,
    NEWEST_LEGACY,
    Era,
    Revision,
)

PROBE_TIMEOUT: Final = 1.0
"""Seconds that a server may be silent about `server/discover` before `initialize` is tried."""


@frozen(kw_only=True)
class Negotiated:
    """What client and server have agreed on."""

    revision: Revision
    capabilities: dict[str, Json]
    server_info: Implementation | None
    instructions: str | None
    others: Mapping[str, Json]
    """What the server's answer has besides."""

    @property
    def era(self) -> Era:
        return "modern" if self.revision.modern else "legacy"


def era_of(revision: str | None, era: Era | None) -> tuple[Era | None, Revision | None]:
    """Find the era of a revision, and the revision itself if it is a legacy one.

    Raises:
        ValueError: There is no such revision or era, or the revision is of the other one.
    """
    if era not in (None, "modern", "legacy"):
        raise ValueError(f"era must be 'modern', 'legacy' or None, not {era!r:.100}")
    if revision is None:
        return era, None
    if revision not in revisions.BY_NAME:
        known = ", ".join(revisions.BY_NAME)
        raise ValueError(f"there is no revision {revision!r}; there are {known}")
    found: Era = "modern" if revision in MODERN else "legacy"
    if era not in (None, found):
        raise ValueError(f"revision {revision} is a {found} one, not {era}")
    return found, LEGACY.get(revision)


@frozen(kw_only=True)
class ClientIdentity:
    """Who the client is, and what it can do."""

    info: Implementation
    capabilities: dict[str, Json]
    required_revision: Revision | None = None
    """The only legacy revision that will do."""
    extensions: Mapping[Era, Mapping[str, Json]] = field(factory=dict)
    """The settings of extensions, by identifier, in each era."""
    one_sided: frozenset[str] = frozenset()
    """Those that are declared to servers that do not have them."""

    def extensions_in(self, revision: Revision) -> Mapping[str, Json]:
        return self.extensions.get("modern" if revision.modern else "legacy", {})

    def capabilities_in(
        self, revision: Revision, shared: Collection[str] | None = None
    ) -> dict[str, Json]:
        """Return the capabilities to declare, with all extensions or those in `shared`."""
        capabilities = self.capabilities
        if "roots" in capabilities and not revision.modern:
            capabilities = {**capabilities, "roots": {"listChanged": True}}
        declared = {
            name: settings
            for name, settings in self.extensions_in(revision).items()
            if shared is None or name in shared or name in self.one_sided
        }
        return {**capabilities, "extensions": declared} if declared else capabilities

    def meta(self, revision: Revision, shared: Collection[str] | None = None) -> dict[str, Json]:
        """Make the `_meta` of modern requests."""
        return {
            META_VERSION: revision.name,
            META_CLIENT_INFO: to_wire(self.info, revision),
            META_CLIENT_CAPABILITIES: self.capabilities_in(revision, shared),
        }


Ask = Callable[[str, dict[str, Json]], Awaitable[Json]]
"""Sends a request of the handshake, and returns its result."""


async def negotiate(
    transport: ClientTransport, ask: Ask, identity: ClientIdentity, era: Era | None = None
) -> Negotiated:
    """Agree with a server on a revision, of the given era or either.

    Raises:
        ProtocolError: There is no revision that both speak, or the server speaks none.
        ClientError: It cannot be asked.
        ConnectionEnded: The server went away.
    """
    if era == "modern":
        try:
            return await _discover(ask, identity)
        except _NotModern as error:
            why = f"{error}; without era= and revision=, older revisions are tried as well"
            raise ProtocolError(why) from None
    if era == "legacy":
        return await _initialize(transport, ask, identity)
    if not transport.always_responds:
        return await _race(transport, ask, identity)
    try:
        return await _discover(ask, identity)
    except _NotModern:
        return await _initialize(transport, ask, identity)


async def _race(transport: ClientTransport, ask: Ask, identity: ClientIdentity) -> Negotiated:
    """Run the probe and, a little later, the handshake; the first good answer wins."""
    probe_failed = trio.Event()
    good: list[Negotiated] = []
    errors: list[Exception] = []

    async def probe() -> None:
        try:
            good.insert(0, await _discover(ask, identity))
        except _NotModern:
            probe_failed.set()
            return
        except Exception as error:
            errors.append(error)
        nursery.cancel_scope.cancel()

    async def handshake() -> None:
        with trio.move_on_after(PROBE_TIMEOUT):
            await probe_failed.wait()
        try:
            good.append(await _initialize(transport, ask, identity))
            await trio.lowlevel.cancel_shielded_checkpoint()  # if both answer at once, modern wins
        except Exception as error:
            errors.append(error)
            if not probe_failed.is_set():  # a modern server may still speak up
                return
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(probe)
        nursery.start_soon(handshake)
    if not good:
        raise errors[-1]
    return good[0]


class _NotModern(ProtocolError):
    """The server does not support `server/discover`."""


async def _discover(ask: Ask, identity: ClientIdentity) -> Negotiated:
    revision = NEWEST
    try:
        result = await _ask_to_discover(ask, identity, revision)
    except _Refused as refused:
        revision = _common(refused.offered)
        try:
            result = await _ask_to_discover(ask, identity, revision)
        except _Refused:
            raise ProtocolError(
                f"no common protocol version: the server refuses {revision.name}, "
                "which it says that it speaks"
            ) from None
    try:
        found = from_wire(result, DiscoverResult)
    except ValueError as error:
        raise _NotModern(f"the server's answer to server/discover is not MCP: {error}") from None
    info = found.meta.get(META_SERVER_INFO) if isinstance(found.meta, dict) else None
    return Negotiated(
        revision=_common(found.supported_versions),
        capabilities=found.capabilities,
        server_info=await offload(_identity, info),
        instructions=_text(found.instructions),
        others=await offload(others_of, result),
    )


class _Refused(Exception):
    """The server refused the version; `offered` are those that it speaks."""

    def __init__(self, offered: Json) -> None:
        super().__init__(offered)
        self.offered = offered


async def _ask_to_discover(ask: Ask, identity: ClientIdentity, revision: Revision) -> Json:
    try:
        return await ask("server/discover", {"_meta": identity.meta(revision)})
    except McpError as error:
        if error.code == UNSUPPORTED_PROTOCOL_VERSION:
            offered = error.data.get("supported") if isinstance(error.data, dict) else None
            raise _Refused(offered) from None
        kind = ProtocolError if error.code in _MODERN_ERRORS else _NotModern
        raise kind(f"the server does not answer server/discover: {error}") from None
    except HttpError as error:
        if isinstance(error, _SAY_NOTHING) or not 400 <= error.status < 500:
            raise
        raise _NotModern(f"the server does not answer server/discover: {error}") from None


_MODERN_ERRORS: Final = (HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY)
"""Errors that only a modern server knows."""
_SAY_NOTHING: Final = (Unauthorized, RateLimited, RequestTooLarge)
"""Refusals that say nothing about the era."""
_MOST_OFFERED: Final = 100
"""So many of the versions that a server says it speaks are looked at."""


def _common(offered: Json) -> Revision:
    """Return the newest modern revision that both sides speak."""
    offered = offered[:_MOST_OFFERED] if isinstance(offered, list) else []
    names = [name for name in offered if isinstance(name, str)]
    for revision in reversed(list(MODERN.values())):
        if revision.name in names:
            return revision
    spoken = ", ".join(names) or "none that it names"
    kind = _NotModern if any(name in names for name in LEGACY) else ProtocolError
    raise kind(
        f"no common protocol version: the server speaks {spoken:.200}, "
        f"this client {', '.join(revisions.BY_NAME)}"
    )


async def _initialize(transport: ClientTransport, ask: Ask, identity: ClientIdentity) -> Negotiated:
    wanted = identity.required_revision or NEWEST_LEGACY
    params = InitializeParams(
        protocol_version=wanted.name,
        capabilities=identity.capabilities_in(wanted),
        client_info=to_wire(identity.info, wanted),
    )
    try:
        result = await ask("initialize", to_wire(params, wanted))
    except McpError as error:
        raise ProtocolError(f"the server refuses the handshake: {error}") from None
    try:
        found = from_wire(result, InitializeResult)
    except ValueError as error:
        raise ProtocolError(f"the server's answer to initialize is not MCP: {error}") from None
    version = found.protocol_version
    if version not in LEGACY:
        raise ProtocolError(f"the server chose protocol version {version!r:.100}")
    if identity.required_revision not in (None, LEGACY[version]):
        raise ProtocolError(f"the server does not speak {wanted.name}, but {version}")
    await transport.notify("notifications/initialized")
    return Negotiated(
        revision=LEGACY[version],
        capabilities=found.capabilities,
        server_info=await offload(_identity, found.server_info),
        instructions=_text(found.instructions),
        others=await offload(others_of, result),
    )


def _identity(wire: Json) -> Implementation | None:
    try:
        return from_wire(wire, Implementation)
    except ValueError:
        return None


_READ: Final = frozenset(
    {
        "supportedVersions",
        "protocolVersion",
        "capabilities",
        "serverInfo",
        "instructions",
        "resultType",
    }
)


def others_of(result: dict[str, Json]) -> dict[str, Json]:
    """Return the members of a server's answer that are not read here."""
    others = {name: result[name] for name in result if name not in _READ}
    meta = others.get("_meta")
    if isinstance(meta, dict):
        others["_meta"] = {name: meta[name] for name in meta if name != META_SERVER_INFO}
    return others


def _text(wire: Json) -> str | None:
    return wire if isinstance(wire, str) else None
