import tracemalloc

import pytest

from trio_mcp.wire.sse import KEEP_ALIVE, Event, EventParser, EventTooLarge, encode_event

pytestmark = pytest.mark.requirement("F7")

STREAM = (
    b"\xef\xbb\xbf: a comment\r\n"
    b"event: greeting\r\n"
    b"id: 1\r\n"
    b"data: hello\r\n"
    b"\r\n"
    b"retry: 250\n"
    b"data:world\n"
    b"\n"
    b"data\r"
    b"data:  two spaces\r"
    b"unknown: field\r"
    b"\r"
)
EVENTS = [
    Event(b"hello", "greeting", "1", None),
    Event(b"world", "message", "1", 250),
    Event(b"\n two spaces", "message", "1", None),
]


def parse(*chunks: bytes, limit: int = 1000) -> list[Event]:
    parser = EventParser(limit)
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_stream_may_arrive_in_any_pieces(size):
    assert parse(*(STREAM[i : i + size] for i in range(0, len(STREAM), size))) == EVENTS


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_in_any_of_three_ways(end):
    assert parse(end.join([b"data: one", b"", b"data: two", b"", b""])) == [
        Event(b"one"),
        Event(b"two"),
    ]


def test_a_line_end_may_be_cut_in_two():
    assert parse(b"data: one\r", b"\ndata: two\r", b"\n\r", b"\n") == [Event(b"one\ntwo")]
    assert parse(b"data: one\r", b"", b"\n", b"\r") == [Event(b"one")]
    assert parse(b"data: one\r", b"\r") == [Event(b"one")]


def test_a_byte_order_mark_counts_only_at_the_beginning():
    assert parse(b"\xef", b"\xbb\xbfdata: x\n\n") == [Event(b"x")]
    assert parse(b"data: x\n\n\xef\xbb\xbfdata: y\n\n") == [Event(b"x")]


def test_comments_and_blank_lines_are_no_events():
    assert parse(KEEP_ALIVE, b"\n\n:\n:x\n\n", b"event: e\n\n") == []


def test_an_event_without_data_is_none_but_its_id_and_retry_count():
    parser = EventParser(100)
    assert parser.feed(b"id: 5\nretry: 20\n\n") == []
    assert (parser.last_event_id, parser.retry) == ("5", 20)


def test_an_event_with_empty_data_is_one():
    assert parse(b"id: 0\ndata:\n\n") == [Event(b"", id="0")]
    assert parse(b"data\n\n") == [Event(b"")]


def test_an_id_holds_until_there_is_another():
    parser = EventParser(100)
    assert parser.feed(b"id: a\ndata: 1\n\ndata: 2\n\n") == [
        Event(b"1", id="a"),
        Event(b"2", id="a"),
    ]
    assert parser.feed(b"id\ndata: 3\n\n") == [Event(b"3", id="")]


def test_what_no_blank_line_has_ended_is_no_event_and_its_id_does_not_count():
    parser = EventParser(100)
    parser.feed(b"id: a\ndata: 1\n\nid: b\ndata: 2\n")
    assert parser.last_event_id == "a"


@pytest.mark.parametrize(
    "line", [b"id: a\0b", b"retry: soon", b"retry: -1", b"retry:", b"retry: 1e3"]
)
def test_ids_with_nul_and_times_that_are_no_numbers_are_ignored(line):
    assert parse(line + b"\ndata: x\n\n") == [Event(b"x")]


def test_what_is_no_utf8_stays_as_it_is_in_data_and_is_replaced_elsewhere():
    assert parse(b"event: \xff\nid: \xfe\ndata: \xff\n\n") == [Event(b"\xff", "\ufffd", "\ufffd")]


def test_an_event_of_just_the_limit_is_taken():
    assert parse(b"data: " + b"x" * 100 + b"\n\n", limit=100) == [Event(b"x" * 100)]


@pytest.mark.parametrize("size", [1, 50, 10_000])
@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"x" * 101 + b"\n\n",
        b"data: " + b"x" * 60 + b"\ndata: " + b"x" * 60 + b"\n\n",
        b"data:\n" * 103,
        b":" + b"x" * 5000,
        b"x" * 5000 + b"\n",
    ],
)
def test_a_longer_event_or_line_is_an_error_however_it_comes(stream, size):
    with pytest.raises(EventTooLarge):
        parse(*(stream[i : i + size] for i in range(0, len(stream), size)), limit=100)


def test_an_endless_event_takes_no_more_memory_than_the_limit():
    parser = EventParser(100_000)
    chunk = b"data\n" * 1000
    tracemalloc.start()
    try:
        with pytest.raises(EventTooLarge):
            while True:
                parser.feed(chunk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("fields", "encoded"),
    [
        ({}, b"data: {}\n\n"),
        ({"id": "7"}, b"id: 7\ndata: {}\n\n"),
        ({"retry": 500, "id": "7"}, b"id: 7\nretry: 500\ndata: {}\n\n"),
        ({"event": "endpoint"}, b"event: endpoint\ndata: {}\n\n"),
    ],
)
def test_an_event_is_encoded_with_its_fields(fields, encoded):
    assert encode_event(b"{}", **fields) == encoded


def test_data_of_several_lines_becomes_several_lines():
    assert encode_event(b"a\nb\r\nc\rd") == b"data: a\ndata: b\ndata: c\ndata: d\n\n"


@pytest.mark.parametrize(
    "fields", [{"id": "a\nb"}, {"id": "a\r"}, {"id": "a\0"}, {"event": "a\nb"}, {"retry": -1}]
)
def test_what_would_break_the_stream_is_refused(fields):
    with pytest.raises(ValueError, match=r"event|retry"):
        encode_event(b"{}", **fields)
