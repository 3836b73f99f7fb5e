"""Serve pages that know no transport (`auth/proxy/web.py`)."""

from __future__ import annotations

from trio_mcp.auth.proxy.web import MAX_BODY, Page, WebRequest
from trio_mcp.transports.http.request import HttpRequest


async def serve_web_page(page: Page, http: HttpRequest) -> None:
    """Answer a request with a page.

    Raises:
        Refusal: Its body is too long (413).
        Disconnected: The client left.
    """
    request = WebRequest(
        method=http.method,
        query=http.scope.get("query_string", b"").decode("latin-1"),
        body=await http.body(MAX_BODY) if http.method == "POST" else b"",
        headers=http.headers,
        address=http.client_address,
    )
    response = await page(request)
    await http.respond(response.status, response.body, response.content_type, response.headers)
