"""Checks of any server, in either era and over any transport.

No tool of the server is called, and no resource read: an examination changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from attrs import field, frozen

from trio_mcp.cli.doctor.descriptions import check_descriptions
from trio_mcp.cli.doctor.report import Report, Server, Severity, shorten, shown
from trio_mcp.cli.probing.base import Answer, Probe, initialize_params
from trio_mcp.cli.schemas import member
from trio_mcp.registry.kinds import LISTED, TEMPLATE
from trio_mcp.wire.bounds import is_number
from trio_mcp.wire.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from trio_mcp.wire.jsonrpc import Id, Json, encode
from trio_mcp.wire.revisions import (
    LEGACY,
    META_CLIENT_CAPABILITIES,
    META_SERVER_INFO,
    META_VERSION,
    MODERN,
    NEWEST,
    NEWEST_LEGACY,
)

_UNKNOWN_VERSION: Final = "1900-01-01"
_NO_SUCH: Final = "trio-mcp-doctor-no-such-thing"
_MAX_PAGES: Final = 200
_LARGE: Final = 200_000
"""Bytes of a large request, which is still smaller than many files."""


@frozen
class _Refusal:
    """A request that has to be refused."""

    what: str
    method: str
    params: dict[str, Json] = field(factory=dict)
    capability: str | None = None
    """The capability without which it is skipped."""
    code: int = field(default=INVALID_PARAMS, kw_only=True)
    """The code of its error,"""
    legacy_code: int = field(default=INVALID_PARAMS, kw_only=True)
    """or, from legacy servers, this one."""
    status: int | None = field(default=None, kw_only=True)
    """The HTTP status of its refusal in the modern era, if not 200."""
    severity: Severity = field(default="warning", kw_only=True)
    """How bad another code is."""
    answered: Severity = field(default="error", kw_only=True)
    """How bad it is to answer with a result."""


_NO_TOOL: Final[dict[str, Json]] = {"name": _NO_SUCH, "arguments": {}}
_NO_RESOURCE: Final[dict[str, Json]] = {"uri": f"{_NO_SUCH}://none"}
_REFUSALS: Final = (
    _Refusal(
        "an unknown method",
        f"{_NO_SUCH}/method",
        code=METHOD_NOT_FOUND,
        legacy_code=METHOD_NOT_FOUND,
        status=404,
    ),
    _Refusal("a call of an unknown tool", "tools/call", _NO_TOOL, "tools"),
    _Refusal(
        "a call that names no tool", "tools/call", {"arguments": {}}, "tools", severity="note"
    ),
    _Refusal("a request for an unknown prompt", "prompts/get", {"name": _NO_SUCH}, "prompts"),
    _Refusal(
        "a request for an unknown resource",
        "resources/read",
        _NO_RESOURCE,
        "resources",
        legacy_code=RESOURCE_NOT_FOUND,
        answered="note",
    ),
)
_OF_VERSION: Final = _Refusal(
    "an unknown version",
    "server/discover",
    {"_meta": {META_VERSION: _UNKNOWN_VERSION}},
    code=UNSUPPORTED_PROTOCOL_VERSION,
    status=400,
    severity="error",
)
_OF_META: Final = _Refusal(
    "a request without the client's capabilities in `_meta`",
    "server/discover",
    {"_meta": {META_CLIENT_CAPABILITIES: None, META_VERSION: NEWEST.name}},
    severity="error",
)


async def check_legacy(report: Report, probe: Probe, *, timeout: float) -> bool:
    """Check all that a legacy client relies on; return whether it can be served."""
    answer = await probe.send_request(
        "initialize", initialize_params(NEWEST_LEGACY.name), timeout=timeout
    )
    if answer is None or not isinstance(answer.result, dict):
        return False
    result = answer.result
    report.starts.append(answer.seconds)
    capabilities = _check_handshake(report, "initialize", result, result.get("serverInfo"))
    version = result.get("protocolVersion")
    if version in LEGACY:
        report.legacy = probe.version = str(version)
    else:
        report.legacy = None if version is None else shorten(version)
        report.add("bad-handshake", f"`initialize` is answered with the version {shown(version)}")
    reply = await probe.send_notification("notifications/initialized")
    if reply is not None and reply.status != 202:
        what = f"a notification is answered with HTTP status {reply.status}, not 202"
        report.add("wrong-status", what)
    pong = await _ask(report, probe, "ping")
    if pong is not None and pong.result != {}:
        said = _said(pong) if pong.error is not None else shown(pong.result)
        report.add("bad-result", f"`ping` is answered with {said} instead of an empty result")
    with _examined_in(report, probe):
        await _check_offers(report, probe, capabilities)
        await _check_robustness(report, probe, "ping")
    return True


async def check_version_negotiation(report: Report, probe: Probe, *, timeout: float) -> None:
    """Check that an unknown version is answered with a known one (2025-11-25, "Lifecycle")."""
    what = f"`initialize` with the unknown version {_UNKNOWN_VERSION}"
    params = initialize_params(_UNKNOWN_VERSION)
    answer = await _ask(report, probe, "initialize", params, what=what, timeout=timeout)
    if answer is None:
        return
    if answer.error is not None:
        report.add("version-negotiation", f"{what} is refused: {_said(answer)}")
    elif isinstance(answer.result, dict):
        report.starts.append(answer.seconds)
        version = answer.result.get("protocolVersion")
        if version not in LEGACY:
            report.add("version-negotiation", f"{what} is answered with {shown(version)}")


async def check_modern(report: Report, probe: Probe, *, timeout: float) -> bool:
    """Check all that a modern client relies on; return whether it can be served."""
    answer = await probe.send_request("server/discover", timeout=timeout)
    if answer is None and probe.gone is None and report.legacy is not None:
        what = "`server/discover`, with which modern clients begin"
        report.add("no-answer", f"{what}: {_silence(timeout)}", severity="warning")
    if answer is None or not isinstance(answer.result, dict):
        return False
    result = answer.result
    versions = result.get("supportedVersions")
    if not isinstance(versions, list) or not any(version in MODERN for version in versions):
        return False
    report.modern = max(version for version in versions if version in MODERN)
    report.starts.append(answer.seconds)
    _check_modern_result(report, "server/discover", result)
    info = member(result, "_meta", dict).get(META_SERVER_INFO)
    capabilities = _check_handshake(report, "server/discover", result, info)
    with _examined_in(report, probe):
        await _check_offers(report, probe, capabilities)
    await _check_meta(report, probe)
    with _examined_in(report, probe):
        await _check_robustness(report, probe, "server/discover")
    return True


def check_unexpected(report: Report, probe: Probe) -> None:
    spread = _spread_message([stray.line for stray in probe.stray if stray.fault is None])
    if spread is not None and not report.has("bad-message", "several lines"):
        report.add("bad-message", f"it writes one message in several lines: {shown(spread)}")
    plain = [stray for stray in probe.stray if stray.fault is None and spread is None]
    kind = "stdout-noise" if probe.on_lines else "bad-message"
    if plain and not report.has(kind, "is not a message"):  # it is another line at each start
        more = f" (and {len(plain) - 1} more)" if len(plain) > 1 else ""
        first = repr(shorten(plain[0].line))
        does = "writes" if probe.on_lines else "answers"
        report.add(kind, f"what it {does} is not a message: {first}{more}")
    for stray in probe.stray:
        if stray.fault is not None and not report.has("bad-message", stray.fault):
            what = f"what it writes is not a proper message, as {stray.fault}"
            report.add("bad-message", f"{what}: {shorten(stray.line)!r}")
    for code, does, ids in (
        ("stray-answer", "it answers what was not asked", probe.stray_answers),
        ("repeated-answer", "it answers more than once", probe.repeated_answers),
    ):
        if ids:
            report.add(code, f"{does}, with the id {', '.join(map(shown, ids[:3]))}")
    if probe.stuck:
        report.add("does-not-read", "it does not read what it is sent, and waits for it to end")
    if probe.requests_received and probe.era == "modern":
        asked = ", ".join(map(shorten, sorted(set(probe.requests_received))))
        report.add("asks-modern-client", f"it sends requests to a modern client: {asked}")


def _spread_message(lines: list[bytes]) -> dict[str, Json] | None:
    """Find a message that was written in several lines, such as indented JSON."""
    text = "\n".join(line.decode("utf-8", "replace") for line in lines)
    begin = text.find("{")
    if begin < 0:
        return None
    try:
        found, end = json.JSONDecoder().raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None
    is_message = isinstance(found, dict) and "jsonrpc" in found
    return found if is_message and "\n" in text[begin:end] else None


# -- one by one --------------------------------------------------------------------------


@contextmanager
def _examined_in(report: Report, probe: Probe) -> Iterator[None]:
    report.era = probe.era
    try:
        yield
    finally:
        report.era = None


def _check_handshake(
    report: Report, method: str, result: dict[str, Json], info: Json
) -> dict[str, Json]:
    """Check serverInfo and the capabilities; return the latter."""
    match info:
        case {"name": str(name), "version": str(version)}:
            report.server = Server(name, version)
            if not version:
                report.add("no-version", "the version in its serverInfo is empty")
        case _:
            severity: Severity | None = "warning" if method == "server/discover" else None
            what = f"`{method}`: serverInfo needs name and version: {shown(info)}"
            report.add("bad-handshake", what, severity=severity)
    capabilities = result.get("capabilities")
    if isinstance(capabilities, dict):
        return capabilities
    report.add("bad-handshake", f"the result of `{method}` has no capabilities")
    return {}


async def _check_offers(report: Report, probe: Probe, capabilities: dict[str, Json]) -> None:
    listed: list[str] = []
    for kind in LISTED.values():
        method, capability, key = kind.list.name, kind.capability, kind.items
        if capability in capabilities:
            items = await _pages(report, probe, method, key)
            if items is not None:
                listed.append(method)
                report.offers[key] = len(items)
                check_descriptions(report, kind, items)
        elif kind is not TEMPLATE:
            answer = await probe.send_request(method)
            if answer is not None and isinstance(answer.result, dict) and answer.result.get(key):
                what = f"it has {key}, but does not declare the capability {capability!r}"
                report.add("undeclared", what)
    await _check_cursors(report, probe, listed)
    for refusal in _REFUSALS:
        if refusal.capability is None or refusal.capability in capabilities:
            await _check_refusal(report, probe, refusal)


async def _pages(report: Report, probe: Probe, method: str, key: str) -> list[Json] | None:
    """Return all pages of a list, or `None` if it fails."""
    items: list[Json] = []
    seen: set[str] = set()
    params: dict[str, Json] = {}
    for _ in range(_MAX_PAGES):
        answer = await _ask(report, probe, method, params)
        if answer is None:
            return None
        if answer.error is not None:
            severity: Severity | None = "note" if method == "resources/templates/list" else None
            what = f"`{method}` fails, although the capability is declared: {_said(answer)}"
            report.add("bad-list", what, severity=severity)
            return None
        page = answer.result.get(key) if isinstance(answer.result, dict) else None
        if not isinstance(page, list):
            report.add("bad-list", f"the result of `{method}` has no list {key!r}")
            return None
        if probe.era == "modern":
            _check_modern_result(report, method, answer.result)
        items += page
        cursor = answer.result.get("nextCursor")
        if cursor is None:
            return items
        if not isinstance(cursor, str):
            report.add("bad-list", f"`{method}`: nextCursor must be a string: {shown(cursor)}")
            return items
        if cursor in seen:
            break
        seen.add(cursor)
        params = {"cursor": cursor}
    report.add("endless-list", f"`{method}` has no last page")
    return items


async def _check_cursors(report: Report, probe: Probe, methods: list[str]) -> None:
    """Check that an unknown cursor is refused ("Pagination: Error Handling")."""
    careless = []
    for method in methods:
        what = f"`{method}` with an unknown cursor"
        answer = await _ask(report, probe, method, {"cursor": _NO_SUCH}, what=what)
        if answer is None:
            continue
        if answer.error is None:
            careless.append(method)
        elif answer.code != INVALID_PARAMS:
            said = f"{what} is answered with {_said(answer)}, not -32602"
            report.add("wrong-error", said, severity="note")
    if careless:
        report.add("ignored-cursor", f"any cursor will do for {', '.join(careless)}")


async def _check_refusal(report: Report, probe: Probe, refusal: _Refusal) -> Answer | None:
    """Check that a request is refused; return the answer, if there is one."""
    what = refusal.what
    answer = await _ask(report, probe, refusal.method, refusal.params, what=what)
    if answer is None or answer.code == HEADER_MISMATCH:  # over HTTP, the name would be a header
        return answer
    expected = {refusal.code, refusal.legacy_code if probe.era == "legacy" else refusal.code}
    if isinstance(answer.result, dict) and answer.result.get("isError") is True:
        report.add("unknown-tool", f"{what} gives a result with isError")
    elif answer.error is None:
        said = f"{what} is answered with a result: {shown(answer.result)}"
        report.add("no-error", said, severity=refusal.answered)
    elif answer.code not in expected:
        said = f"{what} is answered with {_said(answer)}, not {refusal.code}"
        report.add("wrong-error", said, severity=refusal.severity)
    status = refusal.status if probe.era == "modern" else None
    if status is not None and answer.status not in (None, status):
        said = f"{what} is refused with HTTP status {answer.status}, not {status}"
        report.add("wrong-status", said)
    return answer


async def _check_meta(report: Report, probe: Probe) -> None:
    """Check the refusals of an invalid `_meta` (2026-07-28, "Overview")."""
    answer = await _check_refusal(report, probe, _OF_VERSION)
    error = answer.error if answer is not None and answer.code == _OF_VERSION.code else None
    match error:
        case None | {"data": {"supported": list()}}:
            pass
        case _:
            report.add("wrong-error", "error -32022 does not say in data which versions it speaks")
    await _check_refusal(report, probe, _OF_META)


async def _check_robustness(report: Report, probe: Probe, sign_of_life: str) -> None:
    id = probe.next_id()
    listed = {"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": [1]}
    if not await _provoke(
        *(report, probe, sign_of_life),
        b'{"jsonrpc":"2.0","method":',
        what="a line that is not JSON" if probe.on_lines else "a body that is not JSON",
        silent="silent-on-bad-json",
        code=PARSE_ERROR,
    ) or not await _provoke(
        *(report, probe, sign_of_life),
        encode(listed)[:-1],
        what="a request whose params are an array",
        silent="silent-on-bad-request",
        id=id,
    ):
        return
    await probe.send_notification(f"notifications/{_NO_SUCH}")
    alive = await probe.send_request(sign_of_life)
    if not _survived(report, probe, "an unknown notification", alive):
        return
    padding: dict[str, Json] = {"_meta": {f"{_NO_SUCH}/padding": "x" * _LARGE}}
    alive = await probe.send_request(sign_of_life, padding)
    what = f"a request of {_LARGE // 1000} kB"
    if alive is not None and (alive.error is not None or alive.status == 413):
        said = _said(alive) if alive.error is not None else f"HTTP status {alive.status}"
        report.add("large-request", f"{what} is refused: {said}")
    else:
        _survived(report, probe, what, alive)


async def _provoke(
    report: Report,
    probe: Probe,
    sign_of_life: str,
    data: bytes,
    *,
    what: str,
    silent: str,
    id: Id | None = None,
    code: int | None = None,
) -> bool:
    """Send malformed data; return whether the server survived it.

    It should answer as well (JSON-RPC 2.0, "Response object").
    """
    reaction = await probe.send_malformed(data, sign_of_life, id)
    if not _survived(report, probe, what, reaction.alive):
        return False
    answer = reaction.answer
    if answer is None or not answer.is_complete:
        report.add(silent, f"{what} is not answered")
    elif code is not None and answer.code != code:
        said = f"{what} is answered with {_said(answer)}, not {code}"
        report.add("wrong-error", said, severity="note")
    return True


def _survived(report: Report, probe: Probe, what: str, alive: Answer | None) -> bool:
    if alive is not None and alive.is_complete:
        return True
    if probe.gone is not None:
        report.add("dies", f"after {what}, it {probe.gone}")
    elif not probe.stuck:
        report.add("no-answer", f"after {what}, it answers no request")
    return False


def _check_modern_result(report: Report, method: str, result: dict[str, Json]) -> None:
    if result.get("resultType") != "complete":
        kind = result.get("resultType")
        what = "no resultType" if kind is None else f"the resultType {shown(kind)}"
        report.add("bad-result", f"the result of `{method}` has {what}")
    ttl: Json = result.get("ttlMs")
    is_known = is_number(ttl) and ttl >= 0
    if not (is_known and result.get("cacheScope") in ("public", "private")):
        report.add("bad-result", f"the result of `{method}` needs ttlMs and cacheScope")


async def _ask(
    report: Report,
    probe: Probe,
    method: str,
    params: dict[str, Json] | None = None,
    *,
    what: str = "",
    timeout: float | None = None,
) -> Answer | None:
    """Send a request that must be answered; return the answer, if there is one."""
    what = what or f"`{method}`"
    answer = await probe.send_request(method, params, timeout=timeout)
    if answer is not None and answer.error is not None and not _is_error(answer.error):
        report.add("bad-error", f"{what} is answered with the error {shown(answer.error)}")
    if answer is not None and answer.is_complete:
        return answer
    if answer is not None:
        report.add("no-answer", f"{what}: the reply (HTTP status {answer.status}) has no answer")
    elif probe.gone is not None:
        report.add("dies", f"{what}: it {probe.gone} instead of answering")
    elif not probe.stuck:
        report.add("no-answer", f"{what}: {_silence(timeout or probe.timeouts.answer)}")
    return None


def _is_error(error: Json) -> bool:
    match error:
        case {"code": int(code), "message": str()}:
            return not isinstance(code, bool)
    return False


def _silence(seconds: float) -> str:
    return f"no answer within {seconds:.3g} s"


def _said(answer: Answer) -> str:
    code = "an error without a code" if answer.code is None else shown(answer.code)
    return f"{code} ({shorten(answer.message)})" if answer.message else code
