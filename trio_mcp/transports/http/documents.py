"""Documents that anyone may read, without a token and from any page: how clients log in.

They do not change while the app lives, so they have an entity tag, and a client that has the
document already gets 304 (RFC 9110, section 13.1.2).
"""

from __future__ import annotations

import hashlib
from typing import Final

from attrs import field, frozen

from trio_mcp.transports.http.cors import answer_preflight, is_preflight
from trio_mcp.transports.http.request import JSON, Header, HttpRequest, Refusal
from trio_mcp.wire.jsonrpc import Json, encode

_ANY_PAGE: Final = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"etag"),
)


def check_get(http: HttpRequest) -> None:
    if http.method not in ("GET", "HEAD"):
        raise Refusal(405, "This page is for GET.", [(b"allow", b"GET, HEAD")])


def _encoded(value: Json) -> bytes:
    return encode(value)[:-1]


@frozen
class PublicDocument:
    """A JSON document."""

    body: bytes = field(converter=_encoded)
    media_type: bytes = JSON
    max_age: int = 300
    etag: bytes = field(init=False)

    @etag.default
    def _make_etag(self) -> bytes:
        return b'"%s"' % hashlib.sha256(self.body).hexdigest()[:32].encode()

    async def serve(self, http: HttpRequest) -> None:
        http.answer_headers += _ANY_PAGE
        if is_preflight(http):
            await answer_preflight(http)
            return
        check_get(http)
        kept = b"public, max-age=%d" % self.max_age
        headers: list[Header] = [(b"cache-control", kept), (b"etag", self.etag)]
        known = [tag.strip() for tag in http.headers.get(b"if-none-match", b"").split(b",")]
        if self.etag in known or b"W/" + self.etag in known or b"*" in known:
            await http.respond(304, headers=headers)
        else:
            await http.respond(200, self.body, self.media_type, headers)
