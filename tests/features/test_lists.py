"""The four lists: pages, cursors, and how long what was listed may be kept."""

from __future__ import annotations

import base64
import gc
import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio

from tests.client.support import served
from tests.features.ways import client_of, each_quick_client, each_way, reaching
from tests.support.client import REVISIONS, RawClient, serving
from tests.support.tools import error_of, some_revisions
from trio_mcp import Context, Registry, connect

pytestmark = pytest.mark.requirement("H3")

MODERN = "2026-07-28"
NAMES = ["zebra", "ant", "mole", "bee", "yak", "cat", "owl"]


class Kind:
    """One of the lists: how items get into it, and how they are named in it."""

    def __init__(
        self,
        method: str,
        key: str,
        shown_as: str,
        add: Callable[[Registry, str], object],
        remove: Callable[[Registry, str], object],
        pattern: str = "{}",
    ) -> None:
        self.method, self.key, self.shown_as = method, key, shown_as
        self.add, self.remove = add, remove
        self.pattern = pattern

    def names(self, result: Any) -> list[str]:
        """What a page holds, by our names."""
        head, tail = self.pattern.split("{}")
        shown = [each[self.shown_as] for each in result[self.key]]
        return [each.removeprefix(head).removesuffix(tail) for each in shown]


async def nothing() -> str:
    return ""


async def one(id: str) -> str:
    return id


KINDS = [
    Kind(
        "tools/list",
        "tools",
        "name",
        lambda registry, name: registry.add_tool(nothing, name=name),
        lambda registry, name: registry.remove_tool(name),
    ),
    Kind(
        "resources/list",
        "resources",
        "uri",
        lambda registry, name: registry.add_resource(f"x:{name}", nothing),
        lambda registry, name: registry.remove_resource(f"x:{name}"),
        pattern="x:{}",
    ),
    Kind(
        "resources/templates/list",
        "resourceTemplates",
        "uriTemplate",
        lambda registry, name: registry.add_resource(f"y:{name}/{{id}}", one),
        lambda registry, name: registry.remove_resource(f"y:{name}/{{id}}"),
        pattern="y:{}/{{id}}".replace("{{", "{").replace("}}", "}"),
    ),
    Kind(
        "prompts/list",
        "prompts",
        "name",
        lambda registry, name: registry.add_prompt(nothing, name=name),
        lambda registry, name: registry.remove_prompt(name),
    ),
]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=[each.method for each in KINDS])


def zoo(kind: Kind | None = None, names: list[str] = NAMES, **options: Any) -> Registry:
    """A registry with items of one kind, or of all."""
    registry = Registry("zoo", **options)
    for each in KINDS if kind is None else [kind]:
        for name in names:
            each.add(registry, name)
    return registry


async def page(client: RawClient, kind: Kind, cursor: Any = None) -> Any:
    params = {} if cursor is None else {"cursor": cursor}
    return (await client.request(kind.method, params))["result"]


async def pages(client: RawClient, kind: Kind) -> list[list[str]]:
    """Follow the cursors to the end."""
    found, cursors, result = [], set(), await page(client, kind)
    while True:
        found.append(kind.names(result))
        if "nextCursor" not in result:
            return found
        cursor = result["nextCursor"]
        assert cursor not in cursors, "a cursor came twice"
        cursors.add(cursor)
        result = await page(client, kind, cursor)


def cut(names: list[str], size: int) -> list[list[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]


# -- pages ----------------------------------------------------------------------------------------


@each_kind
@some_revisions
async def test_all_items_come_in_the_order_of_registration(revision: str, kind: Kind) -> None:
    async with serving(zoo(kind), revision=revision) as (client, _):
        assert await pages(client, kind) == [NAMES]


@each_kind
@some_revisions
async def test_pages_hold_as_many_items_as_the_registry_says(revision: str, kind: Kind) -> None:
    for size in (1, 2, 3, 6, 7, 8, 1000):
        async with serving(zoo(kind, page_size=size), revision=revision) as (client, _):
            assert await pages(client, kind) == cut(NAMES, size)
            assert await pages(client, kind) == cut(NAMES, size), "the second time, too"


@each_quick_client
async def test_the_client_follows_the_cursors(way: str, era: str) -> None:
    registry = zoo(page_size=2)
    async with client_of(registry, way, era) as client:
        assert list(client.tools) == NAMES
        assert [each.uri for each in await client.list_resources()] == [f"x:{n}" for n in NAMES]
        assert [each.uri_template for each in await client.list_resource_templates()] == [
            f"y:{name}/{{id}}" for name in NAMES
        ]
        assert [each.name for each in await client.list_prompts()] == NAMES
        registry.remove_prompt("zebra")
        assert [each.name for each in await client.list_prompts()] == NAMES[1:]


@each_way
async def test_lists_by_every_way(way: str, revision: str) -> None:
    """The library has two items on a page."""
    async with reaching(way, revision) as client:
        tools, resources, _, prompts = KINDS
        assert await pages(client, tools) == [["touch", "touch_in_a_thread"], ["add", "remove"]]
        assert [len(each) for each in await pages(client, resources)] == [2, 1]
        assert await pages(client, prompts) == [["greet"]]
        for kind in KINDS:
            answer = await client.request(kind.method, {"cursor": "nonsense"})
            assert error_of(answer)[0] == -32602
            assert ("ttlMs" in await page(client, kind)) is (revision == MODERN)


@each_kind
async def test_an_empty_page_needs_no_cursor(kind: Kind) -> None:
    """When all that would follow was removed meanwhile."""
    registry = zoo(kind, page_size=3)
    async with serving(registry) as (client, _):
        first = await page(client, kind)
        for name in NAMES[3:]:
            kind.remove(registry, name)
        second = await page(client, kind, first["nextCursor"])
        assert kind.names(second) == []
        assert "nextCursor" not in second


@each_kind
@some_revisions
async def test_changes_between_pages_neither_repeat_nor_skip_what_stays(
    revision: str, kind: Kind
) -> None:
    registry = zoo(kind, page_size=3)
    async with serving(registry, revision=revision, shake_hands=False) as (client, _):
        first = await page(client, kind)
        kind.remove(registry, NAMES[0])
        kind.remove(registry, NAMES[4])
        kind.add(registry, "eel")
        second = await page(client, kind, first["nextCursor"])
        assert kind.names(second) == ["bee", "cat", "owl"]
        third = await page(client, kind, second["nextCursor"])
        assert kind.names(third) == ["eel"]
        assert "nextCursor" not in third
        assert await pages(client, kind) == [["ant", "mole", "bee"], ["cat", "owl", "eel"]]


@each_kind
async def test_a_cursor_whose_item_is_gone_is_refused(kind: Kind) -> None:
    registry = zoo(kind, page_size=3)
    async with serving(registry, shake_hands=False) as (client, _):
        first = await page(client, kind)
        kind.remove(registry, NAMES[2])
        answer = await client.request(kind.method, {"cursor": first["nextCursor"]})
        assert error_of(answer)[0] == -32602
        kind.add(registry, NAMES[2])  # and back, at the end
        assert kind.names(await page(client, kind, first["nextCursor"])) == []


@each_kind
async def test_cursors_hold_on_other_connections_and_in_other_revisions(kind: Kind) -> None:
    """They say where in the list one was, and nothing of who was there."""
    registry = zoo(kind, page_size=3)
    async with serving(registry, revision=MODERN) as (client, _):
        cursor = (await page(client, kind))["nextCursor"]
    for revision in REVISIONS:
        async with serving(registry, revision=revision) as (client, _):
            assert kind.names(await page(client, kind, cursor)) == NAMES[3:6]


# -- cursors that are none ------------------------------------------------------------------------

NO_CURSORS: list[Any] = [
    *("", "0", "3", "zebra", "after:zebra", "é", "=", "====", " ", "\0", "null", "x" * 10_000),
    *(5, 0, True, False, 1.5, [], {}, ["zebra"], {"after": "zebra"}),
    *(
        base64.b64encode(each).decode()
        for each in (b"", b"\xff", b"zebra", b"after:", b"after:lion", b"after:zebra\n", b"3")
    ),
]


@pytest.mark.requirement("A12")
@each_kind
@some_revisions
async def test_a_cursor_that_is_not_ours_is_refused(revision: str, kind: Kind) -> None:
    async with serving(zoo(kind, page_size=3), revision=revision) as (client, _):
        good = (await page(client, kind))["nextCursor"]
        changed = [good + "=", good + "A", good[:-1], good[1:], " " + good, good + "\n"]
        changed += [
            good[:at] + ("A" if good[at] != "A" else "B") + good[at + 1 :] for at in range(5)
        ]
        for cursor in [*NO_CURSORS, *changed]:
            answer = await client.request(kind.method, {"cursor": cursor})
            assert error_of(answer)[0] == -32602, cursor
            assert "cursor" in answer["error"]["message"].lower()
        assert kind.names(await page(client, kind, good)) == NAMES[3:6]


async def test_a_cursor_is_good_for_its_own_list_alone() -> None:
    registry = Registry("zoo", page_size=1)
    for name in ("x:a", "x:b"):
        registry.add_resource(name, nothing)
        registry.add_prompt(nothing, name=name)
    registry.add_tool(nothing, name="a")
    registry.add_tool(nothing, name="b")
    async with serving(registry) as (client, _):
        for method in ("tools/list", "resources/list", "prompts/list"):
            cursor = (await client.request(method))["result"]["nextCursor"]
            for other in {"tools/list", "resources/list", "prompts/list"} - {method}:
                answer = await client.request(other, {"cursor": cursor})
                assert error_of(answer)[0] == -32602


@each_kind
async def test_a_cursor_of_null_is_none(kind: Kind) -> None:
    async with serving(zoo(kind, page_size=3)) as (client, _):
        answer = await client.request(kind.method, {"cursor": None})
        assert kind.names(answer["result"]) == NAMES[:3]


async def test_every_bit_of_a_cursor_counts() -> None:
    """A cursor that was changed in any character is another one, or none."""
    kind = KINDS[0]
    async with serving(zoo(kind, page_size=3)) as (client, _):
        good = (await page(client, kind))["nextCursor"]
        for at in range(len(good)):
            for character in "Aa0-_=/+":
                if character == good[at]:
                    continue
                changed = good[:at] + character + good[at + 1 :]
                answer = await client.request(kind.method, {"cursor": changed})
                assert "error" in answer, changed


async def test_a_client_that_makes_cursors_up_fills_no_memory() -> None:
    """Pages that nobody walks through are not kept: here, one for each item, of all the rest."""
    registry = Registry("zoo", page_size=200)
    for number in range(400):
        registry.add_prompt(one, name=f"p{number}")

    def dictionaries() -> int:
        gc.collect()
        return sum(1 for each in gc.get_objects() if type(each) is dict)

    async with serving(registry) as (client, _):
        client.judging = False
        good = (await client.request("prompts/list"))["result"]["nextCursor"]
        assert "p199" in base64.urlsafe_b64decode(good).decode(), "this test knows cursors"
        before = dictionaries()
        for number in range(200):
            made_up = base64.urlsafe_b64decode(good).replace(b"p199", f"p{number}".encode())
            cursor = base64.urlsafe_b64encode(made_up).decode()
            answer = await client.request("prompts/list", {"cursor": cursor})
            assert len(answer["result"]["prompts"]) == 200
        assert dictionaries() - before < 5_000  # of 40,000


# -- changes --------------------------------------------------------------------------------------


@pytest.fixture
def threads_that_take_turns_all_the_time() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@each_kind
@some_revisions
async def test_a_list_that_was_kept_is_not_out_of_date(revision: str, kind: Kind) -> None:
    registry = zoo(kind)
    async with serving(registry, revision=revision, shake_hands=False) as (client, _):
        assert await pages(client, kind) == [NAMES]
        kind.remove(registry, "mole")
        left = [each for each in NAMES if each != "mole"]
        assert await pages(client, kind) == [left]
        kind.add(registry, "mole")
        assert await pages(client, kind) == [[*left, "mole"]]


async def test_lists_are_right_while_threads_change_them(
    threads_that_take_turns_all_the_time: None,
) -> None:
    """What a thread has added is listed from then on, however many add at the same time."""
    registry = zoo()
    start = threading.Barrier(4)

    def change(number: int) -> None:
        start.wait()
        for count in range(50):
            KINDS[0].add(registry, f"t{number}-{count}")
            KINDS[1].add(registry, f"t{number}-{count}")
            KINDS[0].remove(registry, f"t{number}-{count}")

    async with serving(registry, shake_hands=False) as (client, _):
        client.judging = False
        done = False

        async def look() -> None:
            while not done:
                for kind in KINDS:
                    assert kind.names(await page(client, kind))[: len(NAMES)] == NAMES

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            async with trio.open_nursery() as threads:
                for number in range(4):
                    threads.start_soon(trio.to_thread.run_sync, change, number)
            done = True
        assert await pages(client, KINDS[0]) == [NAMES]
        [resources] = await pages(client, KINDS[1])
        assert len(resources) == len(NAMES) + 200


# -- how long it may be kept ----------------------------------------------------------------------

CACHEABLE = [*(each.method for each in KINDS), "server/discover", "resources/read"]


def everything(**options: Any) -> Registry:
    registry = zoo(page_size=2, **options)
    registry.add_resource("z:one", nothing, cache_ttl=9, cache_scope="public")
    return registry


def params_of(method: str) -> dict[str, Any]:
    return {"uri": "z:one"} if method == "resources/read" else {}


@pytest.mark.parametrize(
    ("method", "revision"),
    [
        (method, revision)
        for method in CACHEABLE
        for revision in REVISIONS
        if method != "server/discover" or revision == MODERN
    ],
)
async def test_cacheable_results_say_how_long_they_keep(revision: str, method: str) -> None:
    """In modern revisions; in legacy ones there is no such thing."""
    registry = everything(cache_ttl=1.2345, cache_scope="private")
    expected = (9000, "public") if method == "resources/read" else (1234, "private")
    async with serving(registry, revision=revision) as (client, _):
        for _ in range(2):  # kept pages as well
            result = (await client.request(method, params_of(method)))["result"]
            if revision == MODERN:
                assert (result["ttlMs"], result["cacheScope"]) == expected
                assert type(result["ttlMs"]) is int
            else:
                assert {"ttlMs", "cacheScope"}.isdisjoint(result)


@pytest.mark.parametrize("method", CACHEABLE)
async def test_without_a_word_on_it_nothing_is_kept(method: str) -> None:
    registry = zoo()
    registry.add_resource("z:one", nothing)
    async with serving(registry, revision=MODERN) as (client, _):
        result = (await client.request(method, params_of(method)))["result"]
        assert result["ttlMs"] == 0
        assert result["cacheScope"] == ("private" if method == "resources/read" else "public")


@each_kind
async def test_all_pages_of_a_list_have_the_same_scope(kind: Kind) -> None:
    registry = zoo(kind, page_size=2, cache_ttl=5, cache_scope="private")
    async with serving(registry, revision=MODERN) as (client, _):
        result, seen = await page(client, kind), []
        while True:
            seen.append((result["ttlMs"], result["cacheScope"]))
            if "nextCursor" not in result:
                break
            result = await page(client, kind, result["nextCursor"])
        assert seen == [(5000, "private")] * 4


async def test_other_results_carry_no_caching_hints() -> None:
    registry = everything(cache_ttl=5)

    @registry.resource("ask:one", cache_ttl=5)
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Which?", str)
        return answer.value

    requests: list[tuple[str, dict[str, Any]]] = [
        ("tools/call", {"name": "zebra", "arguments": {}}),
        ("prompts/get", {"name": "zebra"}),
        ("resources/read", {"uri": "ask:one"}),  # `input_required` is not content
        ("resources/read", {"uri": "no:one"}),
        ("tools/list", {"cursor": "x"}),
    ]
    async with serving(registry, revision=MODERN, capabilities={"elicitation": {"form": {}}}) as (
        client,
        _,
    ):
        for method, params in requests:
            answer = await client.request(method, params)
            assert "ttlMs" not in json.dumps(answer)
            assert "cacheScope" not in json.dumps(answer)
        asked = await client.request("resources/read", {"uri": "ask:one"})
        assert asked["result"]["resultType"] == "input_required"


async def test_the_client_tells_how_long_contents_keep() -> None:
    registry = everything()
    async with connect(registry) as client:
        result = await client.read_resource("z:one")
        assert (result.ttl, result.cache_scope) == (9.0, "public")
    async with served(registry, era="legacy") as client:
        result = await client.read_resource("z:one")
        assert (result.ttl, result.cache_scope) == (0.0, "private")


@pytest.mark.parametrize(
    "options",
    [
        {"page_size": 0},
        {"page_size": -1},
        {"cache_ttl": -0.1},
    ],
)
def test_nonsense_is_refused(options: dict[str, Any]) -> None:
    [name] = options
    with pytest.raises(ValueError, match=name):
        Registry("zoo", **options)
