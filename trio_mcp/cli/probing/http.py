"""A server at a URL, request by request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from trio_mcp.cli.failures import Failure
from trio_mcp.cli.probing.base import Answer, Probe, Reaction, Timeouts, modern_meta, read_message
from trio_mcp.client.http.endpoint import Endpoint, Reply
from trio_mcp.client.http.options import HttpOptions
from trio_mcp.errors import ClientError, ConnectionLost
from trio_mcp.peer.time_limits import TimeLimit
from trio_mcp.wire.headers import (
    METHOD_HEADER,
    NAME_HEADER,
    SESSION_HEADER,
    VERSION_HEADER,
    encode_value,
)
from trio_mcp.wire.jsonrpc import Id, Json, encode
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.methods import target_of
from trio_mcp.wire.revisions import META_VERSION, Era
from trio_mcp.wire.sse import EventParser

_EVENTS: Final = "text/event-stream"
_HEADERS: Final = {"Content-Type": "application/json", "Accept": f"application/json, {_EVENTS}"}
_MAX_BYTES: Final = Limits().max_message_bytes
_NO_HEADERS: Final[Mapping[str, str]] = {}
_KEPT: Final = ("content-type", "allow", "www-authenticate")
_MAX_NAME: Final = 200


class HttpProbe(Probe):
    """A conversation with a server at a URL. Made by `open_http_probe`."""

    on_lines = False

    def __init__(self, era: Era, endpoint: Endpoint, timeouts: Timeouts) -> None:
        super().__init__(era, timeouts)
        self._endpoint = endpoint
        self.session: str | None = None
        """The session that the server has begun."""

    @property
    def gone(self) -> str | None:
        """Always `None`: over HTTP it cannot be known."""
        return None

    async def send(
        self,
        message: dict[str, Json],
        timeout: float | None = None,
        more_headers: Mapping[str, str] = _NO_HEADERS,
    ) -> Answer | None:
        headers = {**self.headers(message["method"], message.get("params") or {}), **more_headers}
        body, id = encode(message)[:-1], message.get("id")
        return await self.exchange("POST", headers, body, id, timeout=timeout)

    async def send_malformed(self, data: bytes, then: str, id: Id | None = None) -> Reaction:
        params = {"_meta": modern_meta()} if self.era == "modern" else {}
        answer = await self.exchange("POST", self.headers("tools/list", params), data, id)
        return Reaction(answer, await self.send_request(then))

    def headers(self, method: str, params: dict[str, Json]) -> dict[str, str]:
        headers = dict(_HEADERS)
        if self.era == "modern":
            meta = params.get("_meta") or {}
            headers[METHOD_HEADER] = method
            headers[VERSION_HEADER] = str(meta.get(META_VERSION))
            target = target_of(method)
            if target is not None:
                headers[NAME_HEADER] = encode_value(str(params.get(target)))
            return headers
        if self.session is not None:
            headers[SESSION_HEADER] = self.session
        if self.version is not None:
            headers[VERSION_HEADER] = self.version
        return headers

    async def exchange(
        self,
        verb: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        id: Id | None = None,
        *,
        timeout: float | None = None,
    ) -> Answer | None:
        """Send any HTTP request, and find the answer in the reply."""
        began = trio.current_time()
        found: Answer | None = None
        # A person may have to log in first, and is not to be hurried.
        limit = TimeLimit.after(self.timeouts.answer if timeout is None else timeout)
        with limit.scope():
            try:
                async with self._endpoint.exchange(verb, headers, body) as reply:
                    message = await self._message(reply, id, wanted=body is not None)
                    found = Answer(
                        result=message.get("result"),
                        error=message.get("error"),
                        status=reply.status,
                        headers={key: reply.header(key) or "" for key in _KEPT},
                        seconds=trio.current_time() - began,
                    )
                    self.session = reply.header(SESSION_HEADER) or self.session
            except ConnectionLost:
                return None
        return found

    async def _message(self, reply: Reply, id: Id | None, *, wanted: bool) -> dict[str, Json]:
        if not wanted:
            return {}
        if reply.media_type != _EVENTS:
            body = await reply.read_all(_MAX_BYTES)
            return self._parsed(body, stray=reply.is_success and bool(body)) or {}
        parser = EventParser(_MAX_BYTES)
        while (events := await reply.read_events(parser)) is not None:
            for event in events:
                message = self._parsed(event.data, stray=bool(event.data)) or {}
                if "method" in message and "id" in message:
                    self.requests_received.append(str(message["method"])[:_MAX_NAME])
                elif "method" not in message and (message.get("id") == id or "error" in message):
                    await reply.finish(1.0)
                    return message
        return {}

    def _parsed(self, data: bytes, *, stray: bool) -> dict[str, Json] | None:
        message, found = read_message(data)
        if stray and found is not None:
            self.stray.append(found)
        return message


@asynccontextmanager
async def open_http_probe(
    url: str, options: HttpOptions, era: Era, timeouts: Timeouts
) -> AsyncIterator[HttpProbe]:
    """Talk to a server at a URL for the length of a block."""
    async with Endpoint(url, options).opened() as endpoint:
        probe = HttpProbe(era, endpoint, timeouts)
        yield probe
        if probe.session is not None:
            with suppress(ClientError):  # the session ends by itself in time
                await probe.exchange("DELETE", probe.headers("", {}), timeout=2.0)


async def check_access(probe: HttpProbe) -> None:
    """Make sure that the server lets us in."""
    answer = await probe.send_request("server/discover")
    if answer is None or answer.status not in (401, 403):
        return
    why = f": {answer.message}" if answer.message else ""
    way_out = "" if answer.status == 403 else "; --token-env VARIABLE passes a token"
    raise Failure(f"the server does not let us in (HTTP status {answer.status}{why}){way_out}")
