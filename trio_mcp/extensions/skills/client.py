"""The client's side of the skills extension."""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from attrs import define, field

from trio_mcp import Client
from trio_mcp.errors import ClientError, InvalidSkill, NotConnected, ProtocolError, UnverifiedSkill
from trio_mcp.extending import ClientExtension, Method, offload
from trio_mcp.extensions.skills.entry import RemoteSkill, entry_of
from trio_mcp.extensions.skills.format import (
    DIRECTORY_READ,
    GET,
    IDENTIFIER,
    LIST,
    MOST_BYTES,
    digest_of,
)
from trio_mcp.extensions.skills.frontmatter import frontmatter_of, same
from trio_mcp.loggers import logger_of
from trio_mcp.public import public_in
from trio_mcp.threads import in_thread

logger = logger_of("trio_mcp.skills")


@public_in("trio_mcp.extensions.skills")
class SkillsClient(ClientExtension):
    """Finds, loads and verifies the skills of a server. Make one for each connection.

    Nothing is read before it is needed: `list` and `get` return entries, `load` reads a skill's
    `SKILL.md`, and its other files are read one by one (`LoadedSkill.read`). What is read is
    compared with the entry that is held, and used only if it is the same.

    A digest that matches says that a file is the one that the entry means. It does not say that the
    server can be trusted. What a skill says is a stranger's text: show the user where it comes
    from, ask before you load it, and let it run nothing without asking.

    Args:
        origin: Your own name for the server, unique among all that you use. Not the one that the
            server gives itself.
        allow_dynamic: Whether to load skills whose files are made when they are read, too. Nothing
            of them can be verified but the frontmatter.
        cache_bytes: Bytes of files that are kept in memory, those that were used last.

    Example:
        >>> async def learn(registry: Registry) -> str:
        ...     skills = SkillsClient("docs")
        ...     async with connect(registry, extensions=[skills]):
        ...         skill = await skills.load("skill://git-workflow/SKILL.md")
        ...         return skill.text
    """

    identifier = IDENTIFIER

    def __init__(
        self, origin: str, *, allow_dynamic: bool = False, cache_bytes: int = 64 * 1024 * 1024
    ) -> None:
        if not origin:
            raise ValueError("a server needs a name of yours, by which its skills are known")
        self.origin: Final = origin
        self._allow_dynamic = allow_dynamic
        self._cache_bytes = cache_bytes
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._cached = 0
        self._client: Client | None = None

    def methods(self) -> Sequence[Method]:
        return (LIST, GET, DIRECTORY_READ)

    @asynccontextmanager
    async def lifespan(self, client: Client) -> AsyncIterator[None]:
        self._client = client
        try:
            yield
        finally:
            self._client = None

    @property
    def _connected(self) -> Client:
        if self._client is None:
            raise NotConnected(f"{self.origin} is not connected, or has no skills")
        return self._client

    async def list(self) -> Sequence[RemoteSkill]:
        """Ask for the skills that the server lists. It may have more (`get`).

        One that cannot be loaded has a `problem`, which says why.

        Raises:
            ClientError: As for `Client.request`; `NotConnected` if the server has no skills.
        """
        listed = await self._connected.list_all(LIST.name, "skills")
        return await offload(self._entries, listed)

    def _entries(self, listed: Sequence[Any]) -> Sequence[RemoteSkill]:
        found = []
        for wire in listed:
            entry = entry_of(self.origin, wire)
            if entry is None:
                logger.warning("%s lists a skill without a URI, which is left out", self.origin)
            else:
                found.append(entry)
        return found

    async def get(self, uri: str) -> RemoteSkill:
        """Ask for the entry of a skill, listed or not.

        Args:
            uri: The URI of its `SKILL.md`.

        Raises:
            McpError: The server has no such skill (`-32602`).
            ProtocolError: What it sent is not an entry of this skill.
            ClientError: As for `list`.
        """
        result = await self._connected.request(GET.name, {"uri": uri})
        entry = await offload(partial(entry_of, self.origin), result.get("skill"))
        if entry is None or entry.uri != uri:
            raise ProtocolError(f"{GET.name}: the result is not the entry of {uri}")
        return entry

    async def load(self, skill: str | RemoteSkill) -> LoadedSkill:
        """Read a skill's `SKILL.md`, and verify it.

        Args:
            skill: Its entry, which the user may have approved; or its URI, to get the entry first.

        Raises:
            InvalidSkill: Its entry is not what it must be, it is too large, or it is dynamic.
            UnverifiedSkill: What was read is not what the entry says.
            ClientError: As for `get`.
        """
        entry = await self.get(skill) if isinstance(skill, str) else skill
        if entry.origin != self.origin:
            why = f"it is not asked of {self.origin}, which is another server"
            raise InvalidSkill(entry.origin, entry.uri, why)
        if entry.problem is not None:
            raise InvalidSkill(self.origin, entry.uri, entry.problem)
        if entry.files is None and not self._allow_dynamic:
            why = "its files cannot be verified (allow_dynamic)"
            raise InvalidSkill(self.origin, entry.uri, why)
        loaded = LoadedSkill(entry, self)
        data = await loaded.read(entry.uri)
        try:
            await in_thread(_check_frontmatter, data, entry.frontmatter)
        except ValueError as error:
            raise UnverifiedSkill(self.origin, entry.uri, str(error)) from None
        loaded.text = data.decode()
        return loaded

    async def read_directory(self, uri: str) -> Sequence[Mapping[str, Any]]:
        """Ask for the files in a directory as it is now.

        For a skill that is loaded, only the files in `LoadedSkill.entry.files` can be read.

        Args:
            uri: The directory, such as `skill://pdf-processing/templates`.

        Returns:
            What describes each file as a resource; `mimeType` is `inode/directory` for directories.

        Raises:
            ClientError: The server cannot tell what is in directories; or as for `get`.
        """
        client = self._connected
        if client.extensions[IDENTIFIER].get("directoryRead") is not True:
            raise ClientError(f"{self.origin} does not tell what is in directories")
        method = DIRECTORY_READ.name
        found = await client.list_all(method, "resources", params={"uri": uri}, fresh=True)
        if not all(isinstance(resource, dict) for resource in found):
            raise ProtocolError(f"{method}: the result has no resources")
        return found

    # -- files --------------------------------------------------------------------------------

    async def fetch(self, skill: RemoteSkill, uri: str, room: int) -> bytes:
        """Read a file of a skill, from the cache or the server, and verify it.

        Args:
            skill: The entry.
            uri: The file.
            room: The most bytes that it may have.
        """
        expected = None if skill.files is None else skill.files[uri]
        if expected is not None and expected.digest in self._cache:
            self._cache.move_to_end(expected.digest)
            data = self._cache[expected.digest]
            if len(data) == expected.size:
                return data
        result = await self._connected.request("resources/read", {"uri": uri})
        try:
            data, digest = await offload(_data_in, result, uri)
        except ValueError as error:
            raise UnverifiedSkill(self.origin, uri, str(error)) from None
        if len(data) > room:
            raise InvalidSkill(self.origin, uri, f"its files have more than {MOST_BYTES >> 20} MiB")
        if expected is None:
            return data
        if len(data) != expected.size:
            why = f"it has {len(data)} bytes, and its entry says {expected.size}"
            raise UnverifiedSkill(self.origin, uri, why)
        if digest != expected.digest:
            raise UnverifiedSkill(self.origin, uri, "it is not the file that its entry means")
        self._keep(digest, data)
        return data

    def _keep(self, digest: str, data: bytes) -> None:
        if len(data) > self._cache_bytes:
            return
        self._cached += len(data) - len(self._cache.pop(digest, b""))
        self._cache[digest] = data
        while self._cached > self._cache_bytes:
            _, oldest = self._cache.popitem(last=False)
            self._cached -= len(oldest)


def _check_frontmatter(data: bytes, expected: Mapping[str, Any]) -> None:
    """Refuse a `SKILL.md` that begins with something else than its entry says."""
    written = frontmatter_of(data)
    for key in sorted(written.keys() | expected.keys()):
        if not same(written.get(key, ...), expected.get(key, ...)):
            raise ValueError(f"the entry says something else than the file of {key!r:.100}")


def _data_in(result: dict[str, Any], uri: str) -> tuple[bytes, str]:
    contents = result.get("contents")
    for content in contents if isinstance(contents, list) else ():
        match content:
            case {"uri": str(found), "text": str(text)} if found == uri:
                data = text.encode()
            case {"uri": str(found), "blob": str(blob)} if found == uri:
                data = base64.b64decode(blob, validate=True)
            case _:
                continue
        return data, digest_of(data)
    raise ValueError("the server sent something else")


@public_in("trio_mcp.extensions.skills")
@define
class LoadedSkill:
    """A skill that is in use. Only files in the entry that it was loaded from are read."""

    entry: RemoteSkill
    """What the user has approved."""
    _skills: SkillsClient = field(repr=False)
    text: str = field(default="", init=False, repr=False)
    """Its `SKILL.md`, with the frontmatter."""
    _read: int = field(default=0, init=False, repr=False)

    async def read(self, reference: str) -> bytes:
        """Read a file of the skill, and verify it.

        Args:
            reference: Its path in the skill's directory, as in `references/FORMS.md`, or its URI.

        Raises:
            UnverifiedSkill: It is not in the entry, or is not what that says.
            InvalidSkill: Files of a dynamic skill have more than 16 MiB together.
            ClientError: As for `Client.request`.
        """
        entry = self.entry
        uri = entry.resolve(reference)
        if uri is None or (entry.files is not None and uri not in entry.files):
            why = "there is no such file in the entry of the skill"
            raise UnverifiedSkill(entry.origin, reference, why)
        data = await self._skills.fetch(entry, uri, MOST_BYTES - self._read)
        if entry.files is None:
            self._read += len(data)
        return data
