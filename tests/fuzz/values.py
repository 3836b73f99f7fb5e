"""Entrances that are functions: schemas, templates, forms, tokens, documents, files, keys."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import trio

from tests.fuzz.judging import Finding
from trio_mcp import Registry, SchemaError
from trio_mcp.auth import DPoP, ResourceServer
from trio_mcp.auth.challenges import parse_challenges
from trio_mcp.auth.documents import (
    ClientRegistration,
    DocumentError,
    IssuerMetadata,
    ResourceMetadata,
    ServerMetadata,
    read,
)
from trio_mcp.auth.server.credentials import ProofRefused
from trio_mcp.auth.server.dpop import ProofVerifier
from trio_mcp.auth.server.keys import BadSignature, PublicKeys, read_signed
from trio_mcp.compose.config import read_servers
from trio_mcp.compose.openapi import openapi
from trio_mcp.errors import ConfigError
from trio_mcp.extensions.skills.frontmatter import frontmatter_of
from trio_mcp.registry.forms import form_of
from trio_mcp.registry.uri_template import UriTemplate
from trio_mcp.schema import ArgumentError
from trio_mcp.schema.validate import compile_validator
from trio_mcp.store.changes import Add, Append, Change, Conflict, Delete, Put, folder_of
from trio_mcp.store.sqlite_tables import SQLiteTables, prepare
from trio_mcp.store.tables import Tables, TablesStore, Work
from trio_mcp.wire.headers import decode_value, mirrored_parameters, parameter_headers
from trio_mcp.wire.jsonrpc import decode
from trio_mcp.wire.revisions import ALL as REVISIONS
from trio_mcp.wire.sse import EventParser, EventTooLarge

ALGORITHMS: Final = ("ES256", "RS256", "PS256", "Ed25519", "EdDSA")


def _json(data: bytes) -> Any:
    """A value as it comes through the wire; `None` where nothing would."""
    line = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"value":' + data + b"}}"
    params = getattr(decode(line), "params", None)
    return params.get("value") if isinstance(params, dict) else None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# -- schemas and forms -----------------------------------------------------------------------------


async def _take(**arguments: Any) -> str:
    return "taken"


def schemas(data: bytes) -> bytes | None:
    """A schema at registration on the first line, and arguments for it on each line after it."""
    first, *values = data.split(b"\n")
    schema = _json(first)
    if not isinstance(schema, dict):
        return None
    registry = Registry("fuzzed")
    try:
        registry.add_tool(_take, name="take", input_schema=schema)
    except SchemaError:
        return None
    validate = compile_validator(schema)
    told = [validate(_json(each)) for each in values[:8]]
    return "\n".join(each for each in told if each is not None).encode()


def forms(data: bytes) -> bytes | None:
    """The schema of a form, and what somebody fills in."""
    schema, *answers = data.split(b"\n")
    value = _json(schema)
    if not isinstance(value, dict):
        return None
    told = b""
    for revision in REVISIONS:
        try:
            form = form_of(value, revision)
        except SchemaError:
            return None
        for each in answers[:4]:
            try:
                form.parse(_json(each))
            except ArgumentError as error:
                told += _told(error)
    return told


def _told(error: Exception) -> bytes:
    return str(error).encode("utf-8", "surrogatepass")


def headers(data: bytes) -> bytes | None:
    """A schema that mirrors parameters into headers, arguments, and the value of a header."""
    schema, arguments, value, *_ = [*data.split(b"\n"), b"", b""]
    for use in (
        lambda: parameter_headers(mirrored_parameters(_json(schema)), _json(arguments)),
        lambda: decode_value(value.decode("latin-1")),
    ):
        try:
            use()
        except ValueError:
            pass
    return None


# -- URIs ------------------------------------------------------------------------------------------


def templates(data: bytes) -> bytes | None:
    """A template on the first line, and URIs on the others."""
    template, *uris = _text(data).split("\n")
    try:
        parsed = UriTemplate.parse(template)
    except ValueError:
        return None
    for uri in uris:
        values = parsed.match(uri)
        if values is not None and not values.keys() <= set(parsed.variables):
            raise Finding("a value that has no variable")
    return None


# -- what comes with tokens ------------------------------------------------------------------------


def tokens(data: bytes) -> bytes | None:
    """A token on the first line, and the key set of its issuer on the second."""
    token, keys, *_ = [*data.split(b"\n"), b""]
    try:
        signed = read_signed(token.decode("latin-1"), ALGORITHMS)
        key = PublicKeys.read(_json(keys)).find(signed.header.get("kid"), signed.algorithm)
        if key is not None:
            signed.verify(key)
    except (BadSignature, ValueError) as error:
        return _told(error)
    return None


def proofs(data: bytes) -> bytes | None:
    """A proof that a token is its sender's."""
    resource, issuers = "https://mcp.example.com/mcp", ["https://login.example.com"]
    server = ResourceServer(resource=resource, issuers=issuers, leeway=5.0)
    verifier = ProofVerifier(server, DPoP(), clock=lambda: 1_790_000_000.0)

    async def verify() -> None:
        await verifier.verify(data.decode("latin-1"), "token", "print", "POST", [resource])

    try:
        trio.run(verify)
    except ProofRefused as error:
        return _told(error)
    return None


def challenges(data: bytes) -> bytes | None:
    """Fields of `WWW-Authenticate`, a line each."""
    for each in parse_challenges(data.decode("latin-1").split("\n")):
        if each.scopes and each.scheme != each.scheme.lower():
            raise Finding("a scheme that is not in small letters")
    return None


def metadata(data: bytes) -> bytes | None:
    """A document of an authorization server, or of a protected one."""
    told = b""
    for kind in (ResourceMetadata, IssuerMetadata, ServerMetadata, ClientRegistration):
        try:
            read(kind, _json(data), "the document")  # type: ignore[type-var]
        except DocumentError as error:
            told += _told(error)
    return told


# -- files -----------------------------------------------------------------------------------------


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="trio-mcp-fuzz-")


def mcp_json(data: bytes) -> bytes | None:
    """An `mcp.json`."""
    path = Path(_folder().name, "mcp.json")
    path.write_bytes(data)
    try:
        for each in read_servers(path, {"HOME": "/home/somebody"}):
            repr(each)
    except ConfigError:
        pass
    return None


def openapi_documents(data: bytes) -> bytes | None:
    """An OpenAPI document, in JSON or YAML."""
    path = Path(_folder().name, "api.yaml")
    path.write_bytes(data)
    try:
        openapi(path, base_url="https://api.example.com")
    except (SchemaError, ValueError):
        pass
    return None


def frontmatter(data: bytes) -> bytes | None:
    """A SKILL.md."""
    try:
        frontmatter_of(data)
    except ValueError:
        pass
    return None


# -- events ----------------------------------------------------------------------------------------


def events(data: bytes) -> bytes | None:
    """A stream of events, whole and byte by byte."""

    def parsed(chunks: Sequence[bytes]) -> Any:
        parser = EventParser(1000)
        try:
            found = [event for chunk in chunks for event in parser.feed(chunk)]
        except EventTooLarge:
            return None
        return found, parser.last_event_id, parser.retry

    if parsed([data]) != parsed([data[at : at + 1] for at in range(len(data))]):
        raise Finding("how a stream is cut makes a difference")
    return None


# -- stores ----------------------------------------------------------------------------------------


class _Store(TablesStore):
    """A store of one task's, without threads and files."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def _read(self, work: Work[Any]) -> Any:
        return work(self._tables, 1000.0)

    async def _write(self, work: Work[Any], changes: Sequence[Change] = ()) -> Any:
        return work(self._tables, 1000.0)

    def watch(self, *channels: str) -> Any:
        raise NotImplementedError


def _store() -> _Store:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    prepare(connection)
    tables = SQLiteTables(connection)
    tables.begin()
    return _Store(tables)


_OPERATIONS: Final[dict[str, Callable[[TablesStore, str], Any]]] = {
    "p": lambda store, key: store.commit(Put(key, key.encode(), ttl=10, delay=0)),
    "g": lambda store, key: store.get(key),
    "d": lambda store, key: store.commit(Delete(key)),
    "a": lambda store, key: store.commit(Append(key, b"item", ttl=10, limit=3)),
    "r": lambda store, key: store.read(key),
    "n": lambda store, key: store.commit(Add(key, 2**61, ttl=10)),
    "s": lambda store, key: store.scan(folder_of(key) or key, limit=2),
    "c": lambda store, key: store.claim(folder_of(key) or key, 5),
}


def keys_of_stores(data: bytes) -> bytes | None:
    """Operations on keys, a line each: they succeed, or refuse the key."""
    store = _store()

    async def main() -> None:
        for line in _text(data).split("\n")[:20]:
            use = _OPERATIONS.get(line[:1])
            with suppress(ValueError, Conflict):
                if use is not None:
                    await use(store, line[1:])
                if line[:1] == "p" and (await store.get(line[1:])).value != line[1:].encode():
                    raise Finding("an entry that was put is another one")

    trio.run(main)
    return None
