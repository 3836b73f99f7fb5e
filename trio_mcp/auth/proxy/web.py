"""A request to one of the proxy's pages, and the response: values that know no transport."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from attrs import field, frozen

from trio_mcp.wire import codec

Header = tuple[bytes, bytes]

MAX_BODY: Final = 64 * 1024
"""Bytes of the body of a request."""
_MOST_PARAMETERS: Final = 64
_LONGEST: Final = 16 * 1024
"""Characters of a query."""
BACK: Final = "Go back to the application, and try to connect again."
UNAVAILABLE: Final = "Logins cannot be served now. Try again in a moment."
_NO_STORE: Final[tuple[Header, ...]] = ((b"cache-control", b"no-store"), (b"pragma", b"no-cache"))


@frozen(kw_only=True)
class WebRequest:
    """A request to a page.

    Attributes:
        method: Its method.
        query: What comes after the `?` of its URL.
        body: Its body, of `MAX_BODY` bytes at most.
        headers: Its headers, by their names in lower case.
        address: From where it comes: an address, or a network whose addresses are one's own.
    """

    method: str
    query: str = field(default="", repr=False)
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[bytes, bytes] = field(factory=dict, repr=False)
    address: str = ""

    def header(self, name: bytes) -> str:
        """Return a header; empty if there is none."""
        return self.headers.get(name, b"").decode("latin-1")

    def cookie(self, name: str) -> str:
        """Return a cookie; empty if there is none."""
        for pair in self.header(b"cookie").replace(",", ";").split(";"):
            key, _, value = pair.strip().partition("=")
            if key == name:
                return value
        return ""

    def parameters(self) -> dict[str, str]:
        """Return the parameters of its query, or of the form in its body where it is a POST.

        Raises:
            OAuthError: They are no form, too many or too long, or one is there twice.
        """
        text = self.query
        if self.method == "POST":
            kind = self.header(b"content-type").partition(";")[0].strip().lower()
            if kind != "application/x-www-form-urlencoded":
                raise OAuthError("invalid_request", "Send application/x-www-form-urlencoded.")
            text = self.body.decode("utf-8", "replace")
        if len(text) > max(_LONGEST, MAX_BODY if self.method == "POST" else 0):
            raise OAuthError("invalid_request", "The parameters are too long.")
        try:
            pairs = parse_qsl(text, keep_blank_values=False, max_num_fields=_MOST_PARAMETERS)
        except ValueError:
            raise OAuthError("invalid_request", "There are too many parameters.") from None
        found = dict(pairs)
        if len(found) < len(pairs):
            raise OAuthError("invalid_request", "A parameter is there twice.")
        return found


@frozen
class WebResponse:
    """The response of a page."""

    status: int
    body: bytes = b""
    content_type: bytes = b"application/json"
    headers: tuple[Header, ...] = field(default=_NO_STORE, repr=False)


Page = Callable[[WebRequest], Awaitable[WebResponse]]


class OAuthError(Exception):
    """An error as OAuth has it (RFC 6749, section 5.2).

    Args:
        code: Such as `invalid_request`.
        description: What to do about it, in plain ASCII.
        status: The status of the response, where it is one.
    """

    def __init__(self, code: str, description: str, status: int = 400) -> None:
        super().__init__(code, description)
        self.code = code
        self.description = description
        self.status = status

    @property
    def members(self) -> dict[str, str]:
        """What the client is sent, in a response or in a redirect."""
        return {"error": self.code, "error_description": self.description}


class PageError(Exception):
    """An error that a person reads, because no client can be trusted with it.

    Args:
        status: The status of the response.
        title: What has happened.
        advice: What the person can do.
    """

    def __init__(self, status: int, title: str, advice: str) -> None:
        super().__init__(status, title)
        self.status = status
        self.title = title
        self.advice = advice


def json_response(value: Any, status: int = 200, headers: Iterable[Header] = ()) -> WebResponse:
    """Return a JSON document that must not be kept."""
    return WebResponse(status, codec.dumps(value), headers=(*_NO_STORE, *headers))


def redirect(
    url: str, parameters: Mapping[str, str], headers: Iterable[Header] = ()
) -> WebResponse:
    """Send a browser to a URL, with parameters added to those that it has."""
    # Not taken apart: it goes on exactly as it was registered.
    joint = "" if url.endswith(("?", "&")) else "&" if "?" in url else "?"
    location = f"{url}{joint}{urlencode(parameters)}".encode("ascii", "replace")
    kept = (b"referrer-policy", b"no-referrer")
    # 303: a browser that has posted a form must not post it again there.
    return WebResponse(303, b"", headers=(*_NO_STORE, kept, (b"location", location), *headers))
