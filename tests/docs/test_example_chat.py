"""The chat: every turn that it can take, in both eras, and once with a person at a terminal."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cli.support import CTRL_U, Terminal
from tests.support.processes import EXAMPLES, TIME_LIMIT
from trio_mcp import CallResult, Client, Handlers, McpError, connect
from trio_mcp.cli.target import load_registry

CHAT = EXAMPLES / "chat.py"

WISHES = "What kind of trip shall it be?"
GHENT, TRIESTE, LVIV = (
    f"{place} for {price} euros. Guests like it."
    for place, price in (("Ghent", 520), ("Trieste", 400), ("Lviv", 240))
)
WHO = "Who travels?"
CITY = {"kind": "city", "nights": 2, "people": 2}
ADA = {"name": "Ada", "email": "ada@example.com", "newsletter": True}
BOOK, ANOTHER = {"value": "book"}, {"value": "another"}

Turn = tuple[str, Any]
"""What is asked, and what is filled in; a string is an action without anything filled in."""


class User:
    """Knows what will be asked, and what to say to it."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        self.forms: list[Any] = []

    async def answer(self, params: dict[str, Any]) -> dict[str, Any]:
        expected, said = self.turns.pop(0)
        assert params["message"] == expected
        self.forms.append(params["requestedSchema"])
        return {"action": said} if isinstance(said, str) else {"action": "accept", "content": said}


Chat = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["modern", "legacy"])
def chat(request: pytest.FixtureRequest) -> Chat:
    """Connects to the travel agent; whoever leaves must have been asked everything."""

    @asynccontextmanager
    async def connected(user: User | None = None, **handlers: Any) -> AsyncIterator[Client]:
        if user is not None:
            handlers["elicitation"] = user.answer
        with trio.fail_after(TIME_LIMIT):
            async with connect(
                load_registry(str(CHAT)), era=request.param, handlers=Handlers(**handlers)
            ) as client:
                yield client
        assert user is None or user.turns == []

    return connected


async def plan(client: Client) -> CallResult:
    return await client.call_tool("plan_trip")


async def booked(client: Client) -> list[str]:
    return await client.call_tool("bookings", returns=list[str])


async def test_a_trip_is_booked_once(chat: Chat) -> None:
    user = User((WISHES, CITY), (GHENT, ANOTHER), (TRIESTE, BOOK), (WHO, ADA))
    async with chat(user) as client:
        said = "Booked Trieste for Ada, 2 x 2 nights. 400 euros; the tickets go to ada@example.com."
        assert (await plan(client)).text == said
        assert await booked(client) == ["Trieste for Ada, 2 x 2 nights"]
    wishes, offer, _, traveller = user.forms
    assert wishes["required"] == ["kind"]
    assert wishes["properties"]["nights"]["maximum"] == 14
    assert [each["title"] for each in offer["properties"]["value"]["oneOf"]] == [
        "Book it",
        "Show another",
    ]
    assert traveller["properties"]["email"]["format"] == "email"


async def test_what_is_left_empty_has_its_default(chat: Chat) -> None:
    contact = {"name": "Bob", "email": "bob@example.com"}
    offer = "Piran for 330 euros. Guests like it."
    async with chat(User((WISHES, {"kind": "sea"}), (offer, BOOK), (WHO, contact))) as client:
        assert (await plan(client)).text.startswith("Booked Piran for Bob, 1 x 3 nights.")


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ([(GHENT, "decline")], "The user does not want to travel after all."),
        (
            [(GHENT, ANOTHER), (TRIESTE, "cancel")],
            "The user has not decided yet. The last offer was Trieste; nothing is booked.",
        ),
        (
            [(GHENT, ANOTHER), (TRIESTE, ANOTHER), (LVIV, ANOTHER)],
            "The user liked none of Ghent, Trieste, Lviv.",
        ),
    ],
    ids=["declined", "cancelled", "none will do"],
)
async def test_a_chat_that_comes_to_nothing(chat: Chat, turns: list[Turn], said: str) -> None:
    async with chat(User((WISHES, CITY), *turns)) as client:
        result = await plan(client)
        assert (result.error, result.text) == (None, said)
        assert await booked(client) == []


@pytest.mark.parametrize(
    ("action", "error"),
    [
        ("decline", "The user declined to answer."),
        ("cancel", "The user dismissed the question."),
    ],
)
@pytest.mark.parametrize("before", [[], [(WISHES, CITY), (GHENT, BOOK)]], ids=["first", "last"])
async def test_no_answer_where_there_has_to_be_one(
    chat: Chat, before: list[Turn], action: str, error: str
) -> None:
    question = WHO if before else WISHES
    async with chat(User(*before, (question, action))) as client:
        assert (await plan(client)).error == error
        assert await booked(client) == []


async def test_a_model_praises_the_places(chat: Chat) -> None:
    prompts: list[str] = []

    async def write(params: dict[str, Any]) -> dict[str, Any]:
        prompts.append(params["messages"][0]["content"]["text"])
        text = f"Go there, it is place number {len(prompts)}!"
        return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m"}

    user = User(
        (WISHES, CITY),
        ("Ghent for 520 euros. Go there, it is place number 1!", ANOTHER),
        ("Trieste for 400 euros. Go there, it is place number 2!", ANOTHER),
        ("Lviv for 240 euros. Go there, it is place number 3!", BOOK),
        (WHO, ADA),
    )
    async with chat(user, sampling=write) as client:  # the longest chat that there is
        assert (await plan(client)).text.startswith("Booked Lviv for Ada")
    places = ("Ghent", "Trieste", "Lviv")
    assert prompts == [f"Praise {place} in one short sentence." for place in places]


async def test_a_model_that_is_refused_is_done_without() -> None:
    async def refuse(params: dict[str, Any]) -> dict[str, Any]:
        raise McpError(-1, "User rejected sampling request")

    user = User((WISHES, CITY), (GHENT, "decline"))
    handlers = Handlers(elicitation=user.answer, sampling=refuse)
    async with connect(load_registry(str(CHAT)), era="legacy", handlers=handlers) as client:
        assert (await plan(client)).text == "The user does not want to travel after all."


async def test_a_client_that_cannot_be_asked_is_told_so(chat: Chat) -> None:
    async with chat() as client:
        with pytest.raises(McpError, match="elicitation"):
            await plan(client)


@pytest.mark.long
def test_a_person_at_a_terminal(tmp_path: Path) -> None:
    terminal = Terminal("call", str(CHAT), "plan_trip", cwd=tmp_path)

    def accept(question: str) -> None:
        terminal.sees(f"The server asks: {question}")
        terminal.sees("accept, decline or cancel?")
        terminal.types("a")

    accept(WISHES)
    terminal.sees("What shall be there?")
    terminal.sees("kind (sea|mountains|city):")
    terminal.types("mountains")
    terminal.sees("nights (integer, optional): 3")
    terminal.types(f"{CTRL_U}99")
    terminal.sees("at most 14")
    terminal.sees("nights (integer, optional): 3")
    terminal.types(f"{CTRL_U}5")
    terminal.sees("people (integer, optional): 1")
    terminal.types("")
    accept("Soglio for 600 euros. Guests like it.")
    terminal.sees("value (Book it|Show another):")
    terminal.types("show another")
    accept("Vent for 400 euros.")
    terminal.sees("value (Book it|Show another):")
    terminal.types("book it")
    accept(WHO)
    terminal.sees("name (string):")
    terminal.types("Ada")
    terminal.sees("email (string):")
    terminal.types("ada@example.com")
    terminal.sees("newsletter (yes or no, optional): no")
    terminal.types("")
    terminal.sees("Booked Vent for Ada, 1 x 5 nights. 400 euros; ")
    assert terminal.leaves()[0] == 0
