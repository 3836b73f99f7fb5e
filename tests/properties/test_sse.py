"""Any events, encoded, cut anywhere: the same events. Any bytes, cut anywhere: the same result."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire.sse import Event, EventParser, EventTooLarge, encode_event

pytestmark = pytest.mark.requirement("F7")

one_line = st.text(
    st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=20
)
fields = st.fixed_dictionaries(
    {"data": st.binary(max_size=60)},
    optional={
        "id": one_line,
        "event": one_line.filter(bool),
        "retry": st.integers(0, 10**9),
    },
)
PIECES = [
    *(b"\n", b"\r", b"\r\n", b"data: ", b"data", b":", b"id: ", b"event:", b"retry: 7"),
    *(b"\xef\xbb\xbf", b"\xef", b"\0", b" ", b"x" * 30),
]
stream_bytes = st.lists(
    st.sampled_from(PIECES),
    max_size=40,
).map(b"".join)


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    """The stream in pieces."""
    edges = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[a:b] for a, b in pairwise(edges)]


def outcome(chunks: list[bytes], limit: int = 1000) -> tuple[list[Event], object, object, bool]:
    """What a parser makes of chunks: events, id, retry, and whether it refused."""
    parser = EventParser(limit)
    events: list[Event] = []
    try:
        for chunk in chunks:
            events += parser.feed(chunk)
    except EventTooLarge:
        return [], None, None, True
    return events, parser.last_event_id, parser.retry, False


@given(st.lists(fields, max_size=6), st.lists(st.integers(0), max_size=8))
def test_events_survive_encoding_and_any_cut(events, places):
    stream = b"".join(encode_event(**each) for each in events)
    expected = []
    id = None
    for each in events:
        id = each.get("id", id)
        data = re.sub(rb"\r\n?", b"\n", each["data"])
        expected.append(Event(data, each.get("event", "message"), id, each.get("retry")))
    assert outcome(cut(stream, places))[0] == expected


@given(stream_bytes, st.lists(st.integers(0), max_size=8), st.sampled_from([20, 1000]))
def test_how_bytes_are_cut_makes_no_difference(stream, places, limit):
    assert outcome(cut(stream, places), limit) == outcome([stream], limit)
