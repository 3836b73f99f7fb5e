"""What goes wrong at a server on stdio, and how it is seen what the server makes of it."""

import signal
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import trio

from benchmarks.faults.outcomes import Growth, Seen
from benchmarks.faults.session import Answer, Session

PATIENCE = 75.0
"""Seconds after which an answer is no longer awaited: more than any time limit by default."""
_SOON = 5.0
_BLOCKED = 10.0
_BEGUN = 1.0
"""Seconds in which one call has certainly begun."""
_AT_ONCE = 500
_LONG = 3.0
"""Seconds in which all of those have certainly begun."""
_RESULTS, _SIZE = 3_000, 100_000
_LINE = 200_000_000
_SETTLED = 2.0

Fault = Callable[[Session], Awaitable[Seen]]


def said(answer: Answer) -> str:
    """Say in a word or two what became of a call."""
    if answer is None:
        return "no answer"
    if "error" in answer:
        return f"error {answer['error']['code']}"
    return "an error for the model" if answer["result"].get("isError") else "the result"


async def the_input_ends(session: Session) -> str:
    await session.call("wait", seconds=0)  # only a first call may take longer to begin
    call = await session.begin_call("wait", seconds=_BEGUN + 0.2)
    await trio.sleep(_BEGUN)
    await session.close()
    return said(await session.answer(call, _SOON))


async def terminated(session: Session) -> str:
    call = await session.begin_call("wait", seconds=_BEGUN + 0.8)
    await trio.sleep(_BEGUN)
    session.process.send_signal(signal.SIGTERM)
    return said(await session.answer(call, _SOON))


async def never_ends(session: Session) -> str:
    begun = trio.current_time()
    answer = await session.call("wait_forever", within=PATIENCE)
    took = trio.current_time() - begun
    return f"{said(answer)} {'in' if answer is None else 'after'} {took:.0f} s"


async def blocks(session: Session) -> str:
    await session.begin_call("block", seconds=_BLOCKED)
    answer = await session.call("wait", seconds=0, within=_SOON)
    return "are answered" if answer else f"wait for it, {_SOON:.0f} s and more"


async def blocks_at_the_end(session: Session) -> str:
    await session.begin_call("block", seconds=_BLOCKED)
    await trio.sleep(_BEGUN)
    await session.close()
    with trio.move_on_after(_SOON):
        await session.process.wait()
        return f"exits within {_SOON:.0f} s"
    return "waits for it"


async def cancelled(session: Session) -> str:
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "note"
        call = await session.begin_call("wait_and_note", seconds=_BEGUN + 1.8, file=str(note))
        await trio.sleep(_BEGUN)
        params = {"requestId": call, "reason": "no longer wanted"}
        await session.write(session.era.notification("notifications/cancelled", params))
        answer = await session.answer(call, 3.0)
        became = note.read_text() if note.exists() else "was not seen to end"
        return became if answer is None else f"{became}; {said(answer)} is sent"


def writes(tool: str) -> Fault:
    async def fault(session: Session) -> str:
        await session.call(tool)
        await session.call("wait", seconds=0)
        return "is among the messages" if session.noise else "is kept out of the messages"

    return fault


async def raises(session: Session) -> str:
    answer = await session.call("crash")
    return "is sent to the client" if "secret" in str(answer) else "stays in the log"


async def no_message(session: Session) -> str:
    await session.write(b"this is no message\n")
    try:
        after = await session.ping()
    except trio.BrokenResourceError:  # it has ended already
        after = None
    answers = [await session.answer(id, 0.1) for id in (None, "")]
    became = next((said(answer) for answer in answers if answer), "no answer")
    return f"{became}; the connection {'goes on' if after else 'is lost'}"


async def many_at_once(session: Session) -> str:
    calls = [
        await session.begin_call("count_those_that_run", seconds=_LONG) for _ in range(_AT_ONCE)
    ]
    answers = [await session.answer(call, 30.0) for call in calls]
    numbers = [int(each["result"]["content"][0]["text"]) for each in answers if each]
    return f"{max(numbers)} run at once"


async def nothing_is_read(session: Session) -> Growth:
    before = session.memory()
    session.reading = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_call_many, session)
        await _settled(session)
        nursery.cancel_scope.cancel()
    return Growth(session.memory() - before)


async def _call_many(session: Session) -> None:
    for _ in range(_RESULTS):
        await session.begin_call("large", size=_SIZE)


async def _settled(session: Session) -> None:
    """Wait until its memory has not grown for a while."""
    least, since = session.memory(), trio.current_time()
    while trio.current_time() - since < _SETTLED:
        await trio.sleep(0.1)
        if session.memory() > least:
            least, since = session.memory(), trio.current_time()


async def long_line(session: Session) -> Growth:
    before = session.memory()
    head, tail = session.era.request(999, "ping", {"_meta": {"x": "?"}}).split(b"?")
    await session.write(head)
    chunk = b"x" * 1_000_000
    for _ in range(_LINE // len(chunk)):
        await session.write(chunk)
    await session.write(tail)
    answer = await session.answer(999, 30.0)
    return Growth(session.memory() - before, said(answer))


FAULTS: Mapping[str, Fault] = {
    "The input ends 0.2 s before a call is done": the_input_ends,
    "SIGTERM, 0.8 s before a call is done": terminated,
    "A tool that never ends": never_ends,
    "A client cancels a call: the tool": cancelled,
    "A plain function blocks: other calls": blocks,
    "A plain function blocks when the client has gone: the process": blocks_at_the_end,
    f"{_AT_ONCE} calls at once": many_at_once,
    f"{_RESULTS:,} results of 100 KB that the client does not read": nothing_is_read,
    "A line of 200 MB": long_line,
    "A line that is no message": no_message,
    "What `print` in a tool writes": writes("print_noise"),
    "What a child process of a tool prints": writes("have_a_child_print"),
    "What a tool writes to descriptor 1": writes("write_to_descriptor"),
    'The "secret" of an exception in a tool': raises,
}
"""By what happens."""
ONCE = {"A tool that never ends"}
"""What takes so long that it is tried in one round only."""
ANYWHERE = ("A line of 200 MB", "A line that is no message")
"""What needs no tool, so that any server can be tried."""
