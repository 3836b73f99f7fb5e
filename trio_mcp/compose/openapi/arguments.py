"""The arguments of an operation: their names, their schema, and where in a request they go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from attrs import define, field, frozen

from trio_mcp.compose.openapi.document import MOST, Document, members
from trio_mcp.compose.openapi.names import Names, folded
from trio_mcp.compose.openapi.operations import VARIABLE, Operation
from trio_mcp.compose.openapi.schemas import Schema, Schemas
from trio_mcp.compose.openapi.texts import free_name, plain_name
from trio_mcp.wire.jsonrpc import Json

_STYLES: Final = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_OURS: Final = frozenset(
    (
        *("accept", "content-type", "authorization", "cookie"),
        *("accept-encoding", "content-encoding", "content-length", "transfer-encoding"),
        *("connection", "expect", "host", "keep-alive", "te", "trailer", "upgrade"),
        *("proxy-authorization", "proxy-connection"),
    )
)
"""Headers that are not for parameters to say: OpenAPI 3.1, "Parameter Object", says so of the first
three; the others are what HTTP itself, credentials and our reading of answers depend on."""
_LONGEST_ARGUMENT: Final = 64
_MOST_PARAMETERS: Final = 500
_BODY: Final = "body"


@frozen
class Style:
    """How a value is written into a part of a request: by one of OpenAPI's styles, or `json`."""

    name: str
    explode: bool
    """Whether each part of an array or object is a parameter of its own."""
    allow_reserved: bool = False


AS_JSON: Final = Style("json", False)
_SPREADING: Final = frozenset({"form", "cookie", "matrix"})
"""Of the styles that explode, those that make a name in the request of each key of an object."""


@frozen
class Location:
    """A parameter of a request: in its `path`, `query`, `querystring`, `header` or `cookie`."""

    name: str
    where: str
    style: Style
    names: Names = field(factory=Names, eq=False, repr=False)
    """All names at its place."""


@frozen
class Body:
    """The body of a request."""

    media_type: str
    argument: str | None
    """The argument that is all of it; `None` if several make it up."""
    fields: Mapping[str, str]
    """By argument, the member of the body that it is."""
    required: bool
    files: frozenset[str]
    """The members that are files; of a body that is a file itself, `""`."""
    encoding: Mapping[str, Json]
    """How members of forms are written, by name."""
    names: Names = field(eq=False, repr=False)
    """The names of all members."""


Hidden = frozenset[tuple[str, str]]
"""Parameters that are not for callers: their names, as `folded` has them, and places."""


@frozen
class Arguments:
    """The schema of an operation's arguments, and where they go: to parameters, or the body."""

    schema: Schema
    locations: Mapping[str, Location]
    body: Body | None


def arguments_of(
    operation: Operation, document: Document, schemas: Schemas, hidden: Hidden = frozenset()
) -> Arguments:
    """Return what an operation takes, without the parameters that are hidden from callers."""
    return _Collector(operation, document, schemas, hidden).collect()


@define(eq=False, repr=False)
class _Collector:
    """Collects parameters and the members of a body as arguments."""

    _operation: Operation
    _document: Document
    _schemas: Schemas
    _hidden: Hidden
    _properties: dict[str, Any] = field(factory=dict, init=False)
    _required: list[str] = field(factory=list, init=False)
    _references: dict[str, None] = field(factory=dict, init=False)
    _locations: dict[str, Location] = field(factory=dict, init=False)

    def collect(self) -> Arguments:
        in_path = VARIABLE.findall(self._operation.path)
        parameters = self._parameters()
        for name in in_path:  # which some documents forget to declare
            parameters.setdefault((name, "path"), {"schema": {"type": "string"}})
        names = self._names(parameters)
        for (name, where), parameter in parameters.items():
            place = _place(where)
            is_ours = where == "header" and name.lower().replace("_", "-") in _OURS
            is_hidden = (folded(name, place), place) in self._hidden
            if (where != "path" or name in in_path) and not is_ours and not is_hidden:
                self._add_parameter(name, where, parameter, names[place])
        body = self._body()
        schema: Schema = {"type": "object", "properties": self._properties}
        if self._required:
            schema["required"] = self._required
        schema["additionalProperties"] = False
        return Arguments(self._schemas.complete(schema, self._references), self._locations, body)

    def _parameters(self) -> dict[tuple[str, str], Mapping[str, Json]]:
        """Return the operation's parameters, and those of its path that it does not replace."""
        found: dict[tuple[str, str], Mapping[str, Json]] = {}
        for holder in (self._operation.shared, self._operation.details):
            for parameter in self._document.objects(holder, "parameters")[:_MOST_PARAMETERS]:
                name, where = parameter.get("name"), parameter.get("in")
                if isinstance(name, str) and where in (*_STYLES, "querystring"):
                    found[name, where] = parameter
        return found

    def _names(self, parameters: Iterable[tuple[str, str]]) -> Mapping[str, Names]:
        """Return the names at each place: those of parameters, and of what is not for arguments."""
        found: defaultdict[str, Names] = defaultdict(Names)
        for name, where in parameters:
            found[_place(where)].add(name, owner=name)
        for name, where in self._hidden:
            found[where].reserve(name)
        own = self._operation.path.partition("#")[0].partition("?")[2]
        for name, _ in parse_qsl(own, keep_blank_values=True):
            found["query"].reserve(name)
        return found

    def _add_parameter(
        self, name: str, where: str, parameter: Mapping[str, Json], names: Names
    ) -> None:
        content = parameter.get("content")
        media = next(iter(content.values()), None) if isinstance(content, Mapping) else None
        node = self._document.resolve(media).get("schema") if media else parameter.get("schema")
        style = AS_JSON if media is not None else style_of(parameter, where)
        media_type = str(next(iter(content or ()), ""))
        if where == "querystring" and media_type.startswith("application/x"):
            style = Style("form", True)
        text = parameter.get("description")
        required = where == "path" or parameter.get("required") is True
        argument = self._add(name, node, required=required, text=text, seed=where)
        self._locations[argument] = Location(name, where, style, names)
        if style.explode and style.name in _SPREADING:
            for key, _ in members(self._document.resolve(node).get("properties"), names.room):
                names.add(key, owner=name)
        if parameter.get("deprecated") is True:
            self._properties[argument] = {**self._properties[argument], "deprecated": True}

    def _add(
        self, name: str, node: Json, *, required: bool, text: Any = None, seed: str = _BODY
    ) -> str:
        """Add an argument, and return what it is called."""
        argument = plain_name(name, _LONGEST_ARGUMENT) or seed
        argument = free_name(argument, self._properties, f"{seed} {name}", _LONGEST_ARGUMENT)
        made = self._schemas.make(node)
        schema = made.schema if isinstance(made.schema, dict) else {}
        said = self._schemas.described(text)
        self._properties[argument] = {**schema, "description": said} if said else schema
        self._references |= made.references
        if required:
            self._required.append(argument)
        return argument

    def _body(self) -> Body | None:
        body = self._document.resolve(self._operation.details.get("requestBody"))
        content = body.get("content")
        if not isinstance(content, Mapping) or not content:
            return None
        kinds = {each: kind_of(each) for each, _ in members(content)}
        media_type = min(kinds, key=lambda each: _PREFERRED.index(kinds[each]))
        media = self._document.resolve(content.get(media_type))
        node, required = media.get("schema"), body.get("required") is True
        encoding = media.get("encoding")
        encoding, names = encoding if isinstance(encoding, Mapping) else {}, Names()
        kind, text = kinds[media_type], body.get("description")
        schema = self._document.resolve(node)
        files = frozenset(
            name
            for name, each in members(schema.get("properties"))
            if kind == "multipart" and self._is_file(each, encoding.get(name))
        )
        flat = None if kind == "binary" else self._flat_members(schema, required)
        argument, fields = None, {}
        if kind == "binary":
            files = frozenset({""})
            argument = self._add_file(_BODY, {}, required=required, text=text)
        elif flat is None:
            argument = self._add(_BODY, node, required=required, text=text)
        else:
            wanted = schema.get("required")
            wanted = wanted[:MOST] if isinstance(wanted, list) else []
            for name, each in flat.items():
                add = self._add_file if name in files else self._add
                fields[add(name, each, required=name in wanted)] = name
        for name, _ in members(schema.get("properties")):
            names.add(name, owner=name)
        return Body(media_type, argument, fields, required, files, encoding, names)

    def _flat_members(self, schema: Mapping[str, Json], required: bool) -> dict[str, Json] | None:
        """Return the members of a body, if each can be an argument of its own."""
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or len(properties) > MOST:
            return None
        is_plain = (
            schema.get("type", "object") == "object"
            and schema.get("nullable") is not True
            and schema.get("additionalProperties", False) is False
        )
        if not is_plain or _MORE_THAN_MEMBERS & schema.keys():
            return None
        flat = {name: each for name, each in members(properties) if not self._schemas.hides(each)}
        taken = {plain_name(name, _LONGEST_ARGUMENT) for name in flat} & self._properties.keys()
        # Without arguments, a body that may be left out and must not be empty is ambiguous.
        is_clear = required or not schema.get("required")
        is_flat = 0 < len(flat) <= _MOST_PARAMETERS and not taken and is_clear
        return flat if is_flat else None

    def _is_file(self, node: Json, encoding: Json) -> bool:
        schema = self._document.resolve(node)
        if schema.get("type") == "array":
            schema = self._document.resolve(schema.get("items"))
        said = self._document.resolve(encoding).get("contentType")
        if isinstance(said, str) and kind_of(said) == "binary" and "type" not in schema:
            return True
        if "contentMediaType" in schema and "contentEncoding" not in schema:
            return kind_of(str(schema["contentMediaType"])) == "binary"
        is_text = schema.get("type") == "string" and schema.get("format") == "binary"
        return is_text or (not schema and node is not True and said is None)

    def _add_file(self, name: str, node: Json, *, required: bool, text: Any = None) -> str:
        schema = self._document.resolve(node)
        said = self._schemas.described(text or schema.get("description"))
        words = "A file: its bytes in base64, or a data: URI."
        file: Schema = {"type": "string", "description": f"{said} {words}".strip()}
        if schema.get("type") == "array":
            file = {"type": "array", "items": {"type": "string"}, "description": words}
        argument = self._add(name, True, required=required)
        self._properties[argument] = file
        return argument


_MORE_THAN_MEMBERS: Final = frozenset({"allOf", "anyOf", "oneOf", "if", "not", "patternProperties"})


def _place(where: str) -> str:
    return "query" if where == "querystring" else where


def style_of(parameter: Mapping[str, Json], where: str) -> Style:
    """Return how a parameter, or a member of a form, is written."""
    said = parameter.get("style")
    name = said if isinstance(said, str) and said else _STYLES.get(where, "form")
    explode = parameter.get("explode", name in ("form", "deepObject", "cookie"))
    return Style(name, explode is True, parameter.get("allowReserved") is True)


def kind_of(media_type: str) -> str:
    """Return how a body of a media type is written."""
    kind = media_type.partition(";")[0].strip().lower()
    if kind.endswith(("/json", "+json")) or kind in ("*/*", "application/*"):
        return "json"
    if kind == "application/x-www-form-urlencoded":
        return "form"
    if kind.startswith("multipart/"):
        return "multipart"
    is_text = kind.startswith("text/") or kind.endswith(("/xml", "+xml", "/yaml", "+yaml"))
    is_text |= kind in ("application/x-ndjson", "application/javascript", "application/graphql")
    return "text" if is_text else "binary"


_PREFERRED: Final = ("json", "form", "multipart", "text", "binary")
