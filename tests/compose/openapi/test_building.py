"""What documents become: names, choices, schemas, resources; and documents that are attacks."""

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest

from tests.compose.openapi.support import EVERYTHING, Service, document, get, text_of
from trio_mcp import Registry, connect
from trio_mcp.compose.openapi import openapi
from trio_mcp.errors import McpError, ResourceNotFound, SchemaError

pytestmark = pytest.mark.requirement("L6")
PET = {"id": 1, "name": "Rex"}


def properties(schema: Any, **more: Any) -> dict[str, Any]:
    """The schemas that a body with these properties becomes."""
    body = {"content": {"application/json": {"schema": schema}}, "required": True}
    paths = {"/it": {"post": {"operationId": "it", "requestBody": body}}}
    made = openapi(document(paths, **more)).tools["it"].description.input_schema
    jsonschema.Draft202012Validator.check_schema(made)
    return made


async def test_a_registry_is_called_what_the_service_is_and_can_be_served() -> None:
    registry = Service(httpx2.Response(200, json=PET)).registry()
    tools = registry.tools
    assert (registry.name, registry.info.version) == ("Pet Store", "2.5")
    async with connect(registry) as client:
        assert list(client.tools) == [
            *("pets_list", "pets_create", "pets_get", "pets_replace", "pets_delete", "styles"),
            *("forms", "photos", "raw", "notes", "head_uploads"),
        ]
        result = await client.call_tool("pets_get", {"pet-id": "1"})
    assert result.structured_content == PET
    assert tools["pets_list"].description.description == "List pets"
    assert tools["pets_replace"].description.description == "Deprecated. PUT /pets/{pet-id}"
    hints = {name: each.description.annotations for name, each in tools.items()}
    assert hints["pets_list"].read_only_hint
    assert hints["pets_delete"].destructive_hint
    assert hints["pets_replace"].idempotent_hint
    assert hints["pets_create"] is None
    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.description.input_schema)


async def test_registries_are_mounted_each_with_its_own_client() -> None:
    pets, books = Service(httpx2.Response(200, json=PET)), Service(httpx2.Response(404))
    everything = Registry("everything")
    everything.mount(pets.registry(resources="GET /pets/*"), "pets")
    everything.mount(books.registry(document({"/it": get()})), "books")
    async with connect(everything) as client:
        assert "books_it" in client.tools
        assert (await client.call_tool("pets_pets_list", {})).structured_content == PET
        assert "404 Not Found" in str((await client.call_tool("books_it", {})).error)
        (template,) = await client.list_resource_templates()
        uri = template.uri_template.replace("{pet_id}", "7")
        assert json.loads((await client.read_resource(uri)).text) == PET
    assert [request.url.path for request in pets.requests] == ["/v2/pets", "/v2/pets/7"]


def test_operations_are_chosen_and_renamed() -> None:
    def names(**options: Any) -> list[str]:
        return list(openapi(EVERYTHING, **options).tools)

    assert names(only="tag:files") == ["photos", "raw"]
    assert names(only=["GET /pets*", "raw"], leave_out="pets/list") == ["pets_get", "raw"]
    assert "pets_replace" not in names(leave_out="deprecated")
    assert names(only=lambda each: each.method == "HEAD") == ["head_uploads"]
    renamed = names(only="/pets", rename={"pets/list": "pets", "POST /pets": "buy"})
    assert renamed == ["pets", "buy"]
    for options, message in (
        ({"only": "tag:fils"}, "'tag:fils' means no operation"),
        ({"rename": {"pets": "x"}}, "there is no operation 'pets'"),
        ({"rename": {"raw": "not valid"}}, "'not valid' is not valid"),
        ({"only": lambda _: False}, "no operations, or none that are wanted"),
        ({"max_operations": 3}, "has 11 operations, more than max_operations=3"),
        ({"client": Service().client, "headers": {}}, "exclude each other"),
        ({"base_url": "ftp://x"}, "base_url must begin with"),
        ({"base_url": "https://x/?key=1"}, "base_url must begin with .*, and have no query"),
    ):
        with pytest.raises(ValueError, match=message):
            openapi(EVERYTHING, **options)


def test_names_are_unique_valid_and_stay_the_same() -> None:
    long = "a" * 300
    paths = {
        "/a": {"get": {"operationId": "x/y"}, "post": {"operationId": "x.y"}},
        "/b/{c}": {"get": {}, "put": {"operationId": long}, "post": {"operationId": "日本"}},
    }
    names = list(openapi(document(paths)).tools)
    assert names[0] == "x_y"
    assert names[1].startswith("x_y_")
    assert names[2] == "get_b_c"
    assert len(names[3]) == 128
    assert names[4] == "post_b_c"
    assert names == list(openapi(document(paths)).tools)


def test_descriptions_are_as_short_as_is_wanted() -> None:
    text = "Finds things. " + "It finds a great many of them, wherever they are. " * 30
    paths = {"/it": {"get": {"operationId": "it", "summary": "Find", "description": text}}}
    assert len(openapi(document(paths)).tools["it"].description.description or "") <= 400
    short = openapi(document(paths), max_description=20).tools["it"].description
    assert short.description == "Finds things."


# -- schemas ---------------------------------------------------------------------------------------


def test_what_openapi_30_says_in_its_own_way() -> None:
    made = properties(
        {
            "type": "object",
            "required": ["a", "gone", "b"],
            "properties": {
                "a": {"type": "string", "nullable": True, "enum": ["x"], "example": "x"},
                "b": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                "c": {"nullable": True, "allOf": [{"$ref": "#/components/schemas/C"}]},
                "gone": {"type": "string", "readOnly": True},
                "odd": {"type": "file", "required": True, "pattern": "(?=x)", "minimum": "3"},
                "nowhere": {"$ref": "#/components/schemas/Nothing"},
            },
        },
        components={"schemas": {"C": {"type": "object", "xml": {}}}},
    )
    assert made["properties"] == {
        "a": {"type": ["string", "null"], "enum": ["x", None]},
        "b": {"type": "number", "exclusiveMinimum": 0},
        "c": {"anyOf": [{"allOf": [{"type": "object"}]}, {"type": "null"}]},
        "odd": {},
        "nowhere": {},
    }
    assert made["required"] == ["a", "b"]


def test_references_are_written_out_unless_they_are_wanted() -> None:
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}
    inner = {"properties": {"b": {"$ref": "#/components/schemas/B"}}}
    given = document({"/it": {"post": {"operationId": "it", "requestBody": body}}})
    given["components"] = {"schemas": {"A": inner, "B": {"type": "integer"}}}
    for wanted, shown in ((True, {"type": "integer"}), (False, {"$ref": "#/$defs/B"})):
        made = openapi(given, dereference_schemas=wanted).tools["it"].description.input_schema
        assert made["properties"] == {"b": shown}


def test_yaml_is_read_as_12_has_it() -> None:
    made = openapi(EVERYTHING).tools["pets_list"].description.input_schema
    assert made["properties"]["status"]["items"]["enum"] == ["yes", "no", "sold"]


def test_references_lead_to_other_files_only_when_asked_and_never_out(tmp_path: Path) -> None:
    main = tmp_path / "api" / "main.json"
    main.parent.mkdir()
    reference = {"$ref": "parts/pet.yaml#/Pet"}
    body = {"required": True, "content": {"application/json": {"schema": reference}}}
    paths = {"/it": {"post": {"operationId": "it", "requestBody": body}}}
    main.write_text(json.dumps(document(paths)))
    (main.parent / "parts").mkdir()
    part = main.parent / "parts" / "pet.yaml"
    part.write_text(
        "Pet: {type: object, properties: {mother: {$ref: '#/Pet'}, n: {type: integer}}}"
    )
    made = openapi(main, follow_files=True).tools["it"].description.input_schema
    assert made["properties"] == {"mother": {"$ref": "#/$defs/Pet"}, "n": {"type": "integer"}}
    assert openapi(main).tools["it"].description.input_schema["properties"] == {"body": {}}
    reference["$ref"] = "../secret.json"
    main.write_text(json.dumps(document(paths)))
    with pytest.raises(SchemaError, match="leads out of the folder"):
        openapi(main, follow_files=True)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"swagger": "2.0", "paths": {}}, "Swagger 2.0; convert it"),
        ({"openapi": "4.0.0"}, "3.0, 3.1 or 3.2 is needed"),
        ({"openapi": "3.1.0", "paths": []}, "paths of the document are not an object"),
        (b"{", "is not JSON"),
        (b"- a", "holds no object"),
        (b"a: [", "neither JSON nor YAML"),
        (b"a: *b", "neither JSON nor YAML: it has an alias of nothing"),
        (b"? [a]\n: b", "a key that is not text"),
    ],
)
def test_what_is_no_document_is_refused(source: Any, message: str, tmp_path: Path) -> None:
    if isinstance(source, bytes):
        (tmp_path / "api").write_bytes(source)
        source = tmp_path / "api"
    with pytest.raises(SchemaError, match=message):
        openapi(source)


# -- resources -------------------------------------------------------------------------------------


async def test_operations_may_be_resources() -> None:
    service = Service(httpx2.Response(200, json=PET))
    registry = service.registry(resources=["GET /pets*"])
    assert "pets_get" not in registry.tools
    assert list(registry.resource_templates) == [
        "pet-store:///pets{?limit,page,status,filter_age}",
        "pet-store:///pets/{pet_id}",
    ]
    async with connect(registry) as client:
        found = await client.read_resource("pet-store:///pets/a%2Fb")
        assert json.loads(found.text) == PET
        assert service.request.url.raw_path == b"/v2/pets/a%2Fb"
        await client.read_resource("pet-store:///pets?limit=3")
        assert service.request.url.query == b"limit=3"
        service.answer = httpx2.Response(404)
        with pytest.raises(ResourceNotFound, match="pet-store:///pets/0"):
            await client.read_resource("pet-store:///pets/0")
        service.answer = httpx2.Response(500, text="broken")
        with pytest.raises(McpError, match="500 Internal Server Error"):
            await client.read_resource("pet-store:///pets/0")
    with pytest.raises(ValueError, match="POST /pets cannot be one: it is not a GET"):
        service.registry(resources="/pets")


# -- attacks ---------------------------------------------------------------------------------------


def schema_document(schemas: dict[str, Any], paths: int = 1) -> dict[str, Any]:
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}
    each = {"operationId": "it", "requestBody": body}
    made = {f"/p{index}": {"post": each} for index in range(paths)}
    return document(made, components={"schemas": schemas})


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    "schemas",
    [
        {"A": {"allOf": [{"$ref": "#/components/schemas/A"}]}},
        {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}},
        {"A": nested(900)},
        {"A": {"enum": list(range(200_000))}},
        {"A": {"properties": {str(index): {} for index in range(100_000)}}},
        {"A": {"description": "x" * 1_000_000, "pattern": "(a|b)" * 100_000}},
        {"A": {"maximum": 10**350, "multipleOf": 10**350}},
        {
            f"{chr(65 + index)}": {
                "anyOf": [{"$ref": f"#/components/schemas/{chr(66 + index)}"}] * 9
            }
            for index in range(20)
        },
    ],
    ids=[
        "circle",
        "circle of two",
        "deep",
        "many values",
        "many names",
        "long",
        "numbers",
        "branches",
    ],
)
async def test_hostile_schemas_cost_little_and_the_tool_works(
    schemas: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "trio_mcp.openapi")
    service = Service()
    registry = service.registry(schema_document(schemas))  # without bounds it would not end
    schema = registry.tools["it"].description.input_schema
    jsonschema.Draft202012Validator.check_schema(schema)
    assert len(json.dumps(schema)) < 3_000_000
    await registry.call("it", {})
    assert service.request.url.path == "/p0"


def test_yaml_that_holds_itself_or_multiplies_is_bounded(tmp_path: Path) -> None:
    lines = ["a0: &a0 {type: array, items: {}}"]
    lines += [f"a{i}: &a{i} {{anyOf: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 12)]
    operation = "requestBody: {content: {application/json: {schema: *a11}}}"
    circle = "c: &c {properties: {c: *c}}"
    (tmp_path / "bomb.yaml").write_text(
        "\n".join(
            [
                *lines,
                circle,
                "openapi: 3.1.0",
                "servers: [{url: 'https://x.example'}]",
                f"paths: {{/a: {{post: {{{operation}}}}}, ",
                " /b: {post: {requestBody: {content: {application/json: {schema: *c}}}}}}",
            ]
        )
    )
    assert list(openapi(tmp_path / "bomb.yaml").tools) == ["post_a", "post_b"]
    assert list(openapi(tmp_path / "bomb.yaml", follow_files=True).tools) == ["post_a", "post_b"]
    (tmp_path / "deep.yaml").write_text("a: " + "[" * 100_000)
    with pytest.raises(SchemaError):
        openapi(tmp_path / "deep.yaml")


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_too_many_operations_are_refused_before_anything_is_made_of_them(count: int) -> None:
    paths = {f"/{index}/{'x' * 100}": get() for index in range(count)}
    with pytest.raises(SchemaError, match=f"{count:,} operations, more than max_operations=2500"):
        openapi(document(paths))


class LongList(list[Any]):
    """A list of which only the beginning may be looked at."""

    def __iter__(self) -> Any:
        for number, each in enumerate(super().__iter__()):
            assert number < 10_000, "all of it is looked at"
            yield each


class LongObject(dict[str, Any]):
    """An object of which only the first members may be looked at."""

    def items(self) -> Any:
        for number, each in enumerate(super().items()):
            assert number < 10_000, "all of it is looked at"
            yield each

    def __iter__(self) -> Any:
        raise AssertionError("all of it is looked at")


def test_of_what_many_operations_may_share_a_bounded_part_is_looked_at() -> None:
    names = [f"n{index}" for index in range(20_000)]
    named = LongObject.fromkeys(names, {})
    target = {"$ref": "#/components/schemas/A"}
    body = {
        "properties": LongObject.fromkeys(names, {"type": "string"}),
        "required": LongList(names),
        "anyOf": LongList([target] * 20_000),
        "discriminator": {"propertyName": "kind", "mapping": LongObject.fromkeys(names, "A")},
        "enum": LongList(names),
        "default": LongList(names),
    }
    forms = {"schema": {"properties": body["properties"], "required": body["required"]}}
    shared = {
        "parameters": LongList([{"name": "p", "in": "query", "$ref": "#/" + "a/" * 2000}] * 20_000),
        "post": {
            "tags": LongList(names),
            "summary": LongList(names),
            "security": LongList([{"key": []}] * 20_000),
            "responses": named,
            "requestBody": {"content": LongObject({"multipart/form-data": forms, **named})},
        },
        "put": {
            "responses": {"200": {"content": named}},
            "requestBody": {"content": {"application/json": {"schema": body}}},
        },
    }
    paths = {"/a": {"$ref": "#/x"}, "/b": {"$ref": "#/x"}}
    registry = Service().registry(document(paths, x=shared, components={"schemas": {"A": {}}}))
    assert list(registry.tools) == ["put_a", "post_a", "put_b", "post_b"]
    taken = registry.tools["put_a"].description.input_schema["properties"]["body"]
    assert len(taken["properties"]) <= 1500
    assert {"required", "enum", "default"}.isdisjoint(taken)


def test_the_servers_that_operations_share_are_looked_at_once() -> None:
    looked: list[str] = []

    class Variables(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            looked.append(name)
            return super().get(name, default)

    servers = [{"url": "https://{host}", "variables": Variables(host={"default": "a.example"})}]
    paths = {f"/{index}": {"get": {"servers": servers}} for index in range(20)}
    assert len(Service().registry(document(paths)).tools) == 20
    assert looked == ["host"]


def test_more_schemas_than_may_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operation refers to all of them: so a short document may ask for millions."""
    last = {"properties": {f"p{index}": {} for index in range(99)}}
    described = schema_document({"A": {"items": {"$ref": "#/components/schemas/B"}}, "B": last}, 30)
    monkeypatch.setattr("trio_mcp.compose.openapi.schemas._MOST_IN_ALL", 3500)
    assert len(Service().registry(described).tools) == 30
    monkeypatch.setattr("trio_mcp.compose.openapi.schemas._MOST_IN_ALL", 3000)
    with pytest.raises(SchemaError, match="more than 3,000 schemas: choose some with only="):
        Service().registry(described)


@pytest.mark.parametrize("odd", [None, 3, "x", [], [None], {"x": None}, True])
async def test_whatever_stands_where_something_else_belongs_is_passed_over(odd: Any) -> None:
    operation = {
        "operationId": odd,
        "tags": odd,
        "parameters": odd,
        "requestBody": odd,
        "responses": odd,
        "security": odd,
        "description": odd,
        "servers": odd,
    }
    paths: dict[str, Any] = {"/it": {"post": operation, "parameters": odd}, "/odd": odd, "no": {}}
    registry = Service().registry(document(paths, info=odd, components=odd, security=odd))
    (name,) = registry.tools
    assert isinstance(registry, Registry)
    assert text_of(await registry.call(name, {})) == "200 OK"
    schema = {"type": odd, "properties": odd, "items": odd, "allOf": odd, "required": odd}
    made = properties({"type": "object", "properties": {"a": schema}, "required": odd})
    assert "a" in made["properties"]


# -- documents at URLs -----------------------------------------------------------------------------


class Site(BaseHTTPRequestHandler):
    """A document at /api.json, one that names no server at /docs/none.json, and nothing else."""

    def do_GET(self) -> None:
        servers = [{"url": "/v1"}] if self.path == "/api.json" else []
        text = json.dumps(document({"/it": get()}, servers=servers)).encode()
        self.send_response(200 if self.path in ("/api.json", "/docs/none.json") else 404)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


async def test_a_document_may_be_at_a_url_and_servers_are_relative_to_it() -> None:
    service = Service()
    with HTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{site.server_port}"
        registry = service.registry(f"{base}/api.json")
        without = service.registry(f"{base}/docs/none.json")
        with pytest.raises(SchemaError, match=r"cannot get the document \(HTTPStatusError\)"):
            service.registry(f"{base}/nowhere.json")
        site.shutdown()
    await registry.call("it", {})
    assert str(service.request.url) == f"{base}/v1/it"
    await without.call("it", {})
    assert str(service.request.url) == f"{base}/it"
    with pytest.raises(SchemaError, match=r"cannot get the document \(ConnectError\)"):
        service.registry(f"{base}/api.json")


def test_a_star_is_all_that_stands_for_other_characters_in_a_rule() -> None:
    paths = {
        "/a[b]": {"get": {"operationId": "brackets", "tags": ["[internal]"]}},
        "/ab": {"get": {"operationId": "letters", "tags": ["i"]}},
    }
    for rule in ("/a[b]", "tag:[internal]", "GET /a[*"):
        assert list(openapi(document(paths), leave_out=rule).tools) == ["letters"]
    with pytest.raises(ValueError, match="means no operation"):
        openapi(document(paths), only="/a?")
