import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire.framing import HEAD_BYTES, LineDecoder, Oversized, Skipped


def decode_all(chunks, limit=100):
    decoder = LineDecoder(limit)
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return frames + decoder.close()


@pytest.mark.requirement("A3")
def test_a_message_may_arrive_byte_by_byte_or_a_thousand_at_once():
    stream = b"".join(b"line %d\n" % number for number in range(1000))
    at_once = decode_all([stream])
    byte_by_byte = decode_all([stream[i : i + 1] for i in range(len(stream))])
    assert at_once == byte_by_byte == [b"line %d" % number for number in range(1000)]


@pytest.mark.requirement("A4")
def test_empty_lines_are_left_out():
    assert decode_all([b"\n\none\n\n\ntwo\n\n"]) == [b"one", b"two"]


def test_the_last_line_needs_no_newline():
    assert decode_all([b"one\ntw", b"o"]) == [b"one", b"two"]


def test_a_closed_decoder_has_nothing_left():
    decoder = LineDecoder(100)
    assert decoder.feed(b"one") == []
    assert decoder.close() == [b"one"]
    assert decoder.close() == []


@pytest.mark.requirement("A7")
def test_a_line_of_just_the_limit_is_returned():
    assert decode_all([b"x" * 100 + b"\ny\n"]) == [b"x" * 100, b"y"]


@pytest.mark.requirement("A7")
@pytest.mark.parametrize("chunk_size", [1, 7, 1000])
def test_a_longer_line_is_reported_once_with_its_head_and_then_its_size(chunk_size):
    stream = b"short\n" + b"x" * 101 + b"\nnext\n"
    chunks = [stream[i : i + chunk_size] for i in range(0, len(stream), chunk_size)]
    short, oversized, skipped, following = decode_all(chunks)
    assert (short, skipped, following) == (b"short", Skipped(101), b"next")
    assert isinstance(oversized, Oversized)
    assert oversized.limit == 100
    assert b"x" * 100 in oversized.head + b"x"
    assert len(oversized.head) <= HEAD_BYTES


@pytest.mark.requirement("A7")
def test_a_line_that_ends_with_the_input_is_reported_too():
    oversized, skipped = decode_all([b"x" * 150])
    assert isinstance(oversized, Oversized)
    assert skipped == Skipped(150)


@pytest.mark.requirement("A7")
def test_an_endless_line_never_holds_more_than_the_limit():
    limit = 1024 * 1024
    decoder = LineDecoder(limit)
    chunk = b"x" * 65536
    tracemalloc.start()
    try:
        for _ in range(200):  # 12.5 times the limit
            decoder.feed(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * limit  # a growing buffer is copied now and then


@pytest.mark.long
def test_one_byte_chunks_of_a_long_line_take_no_more_memory_than_the_line():
    decoder = LineDecoder(1024 * 1024)
    tracemalloc.start()
    try:
        for _ in range(200_000):
            decoder.feed(b"x")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 600_000


@given(
    st.lists(st.sampled_from([b"", b"a", b"\n", b"\r", b"x" * 9, b"x" * 30, b"\x00", b"\xff"])),
    st.data(),
)
def test_any_chunking_gives_the_same_lines(parts, data):
    stream = b"".join(parts)
    cuts = data.draw(st.lists(st.integers(0, len(stream))).map(sorted))
    edges = [0, *cuts, len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(edges)]
    whole = decode_all([stream], limit=20)
    cut = decode_all(chunks, limit=20)
    assert [f for f in whole if not isinstance(f, Oversized)] == [
        f for f in cut if not isinstance(f, Oversized)
    ]
    assert [f.limit for f in whole if isinstance(f, Oversized)] == [
        f.limit for f in cut if isinstance(f, Oversized)
    ]
