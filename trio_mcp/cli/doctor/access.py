"""How a server at a URL refuses unknown clients, and whether they learn how to be authorized.

Revision 2026-07-28, "Authorization"; RFC 9728.
"""

from __future__ import annotations

from typing import Final

from attrs import evolve

from trio_mcp.auth.challenges import parse_challenges
from trio_mcp.auth.urls import resource_metadata_urls
from trio_mcp.cli.doctor.report import Report
from trio_mcp.cli.probing.base import Answer, Timeouts
from trio_mcp.cli.probing.http import open_http_probe
from trio_mcp.client.http.options import HttpOptions

_AUTHORIZATION: Final = "Authorization"


async def check_challenge(
    report: Report, url: str, options: HttpOptions, timeouts: Timeouts
) -> None:
    """Check the answers to requests without a token, and with an invalid one."""
    headers = {k: v for k, v in options.headers.items() if k.lower() != _AUTHORIZATION.lower()}
    stranger = evolve(options, headers=headers, auth=None)
    async with open_http_probe(url, stranger, "modern", timeouts) as probe:
        answer = await probe.send_request("server/discover")
        if answer is None or answer.status != 401:
            return
        request = probe.make_request("server/discover", None)
        made_up = {_AUTHORIZATION: "Bearer made-up-by-trio-mcp-doctor"}
        tried = await probe.send(request, more_headers=made_up)
        if tried is not None and tried.result is not None:
            report.add("takes-any-token", "a token that was made up opens it")
    challenges = parse_challenges([(answer.headers or {})["www-authenticate"]])
    if not challenges:
        report.add("no-challenge", "HTTP status 401 comes without `WWW-Authenticate`")
    elif any(found.resource_metadata for found in challenges) or challenges[0].scheme == "basic":
        return
    if not await _has_metadata(url, stranger, timeouts):
        what = "it does not say which authorization server gives tokens for it"
        report.add("no-resource-metadata", what)


async def _has_metadata(url: str, options: HttpOptions, timeouts: Timeouts) -> bool:
    """Whether the resource's metadata is at the usual URL."""
    for place in resource_metadata_urls(url):
        async with open_http_probe(place, options, "modern", timeouts) as probe:
            answer: Answer | None = await probe.exchange("GET", {"Accept": "application/json"})
        if answer is not None and answer.status == 200:
            return True
    return False
