"""How a server at a URL refuses those whom it does not know, and whether they learn how to get in.

Revision 2026-07-28, "Authorization"; RFC 9728.
"""

from __future__ import annotations

from typing import Final

from attrs import evolve

from trio_mcp.auth.challenges import parse_challenges
from trio_mcp.auth.urls import resource_metadata_urls
from trio_mcp.cli.doctor.report import Report
from trio_mcp.cli.probing.base import Answer, Timeouts
from trio_mcp.cli.probing.http import HttpProbe, open_http_probe
from trio_mcp.client.http.options import HttpOptions

_AUTHORIZATION: Final = "Authorization"


async def check_challenge(
    report: Report, url: str, options: HttpOptions, timeouts: Timeouts
) -> None:
    """Check what is said to those who come without a token, or with one that is none.

    Raises:
        ClientError: The server cannot be reached.
    """
    headers = {k: v for k, v in options.headers.items() if k.lower() != _AUTHORIZATION.lower()}
    stranger = evolve(options, headers=headers, auth=None)
    async with open_http_probe(url, stranger, "modern", timeouts) as probe:
        answer = await probe.send_request("server/discover")
        if answer is None or answer.status != 401:
            return
        await _check_made_up_token(report, probe)
    challenges = parse_challenges([(answer.headers or {})["www-authenticate"]])
    if not challenges:
        report.add("no-challenge", "HTTP status 401 comes without `WWW-Authenticate`")
    elif any(each.resource_metadata for each in challenges) or challenges[0].scheme == "basic":
        return
    if not await _has_metadata(url, stranger, timeouts):
        what = "it does not say which authorization server gives tokens for it"
        report.add("no-resource-metadata", what)


async def _check_made_up_token(report: Report, probe: HttpProbe) -> None:
    request = probe.make_request("server/discover", None)
    answer = await probe.post(request, {_AUTHORIZATION: "Bearer made-up-by-trio-mcp-doctor"})
    if answer is not None and answer.result is not None:
        report.add("takes-any-token", "a token that was made up opens it")


async def _has_metadata(url: str, options: HttpOptions, timeouts: Timeouts) -> bool:
    """Whether the resource's metadata is where clients look for it without being told."""
    for place in resource_metadata_urls(url):
        async with open_http_probe(place, options, "modern", timeouts) as probe:
            answer: Answer | None = await probe.exchange("GET", {"Accept": "application/json"})
        if answer is not None and answer.status == 200:
            return True
    return False
