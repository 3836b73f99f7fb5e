"""How much there is in a message, whatever it is written like."""

import json

import pytest

from trio_mcp.wire.jsonrpc import Malformed, Request, decode
from trio_mcp.wire.weight import is_heavier, is_long, without_strings

pytestmark = pytest.mark.requirement("B4", "E4")

LONG = 64 * 1024
"""Shorter messages are never weighed."""


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        (b"1", 0),
        (b"[1,2,3]", 7),
        (b"[[],[]]", 16),
        (b'{"a":1,"b":2}', 16),
        (b'["[[[[[[{{{:::,,,"]', 5),
        (rb'["\\\"[[[","\\"]', 6),
        (b'["' + b"[" * 1_000_000 + b'",[]]', 11),
        (b'["' + b"\\" * 1_000_000 + b'[[[",[]]', 11),
        (b'["' + b'\\"[' * 300_000 + b'",[]]', 11),
        (b"[" + b'"[",' * 300_000 + b"1]", 300_005),
        (b'["' + rb"{\"a\": 1}, " * 300_000 + b'",[]]', 11),
        (b"[" + rb'{"\\":1},' * 300_000 + b"1]", 3_300_005),
        (b"[" + rb'"{\"a\":1}",' * 300_000 + b"1]", 300_005),
    ],
)
def test_what_is_in_strings_does_not_count(text, weight):
    assert is_heavier(text, weight - 1)
    assert not is_heavier(text, weight)


@pytest.mark.parametrize("padding", range(260 * 1024, 260 * 1024 + 8))
def test_no_escape_sequence_is_cut(padding):
    assert not is_heavier(json.dumps(["x" * padding + '\\"' * 200_000 + "[" * 100]).encode(), 5)


def test_long_is_what_is_large_or_has_much_in_it():
    assert is_long(b"x" * 5_000_000)
    assert is_long(b"[]," * 20_000)
    assert not is_long(b"x" * 1_000_000)
    assert not is_long(b'["' + b"[:" * 1_000_000 + b'"]')
    assert is_long(b'[%b,"%b"]' % (str(2**70).encode(), b"x" * 300_000))
    assert not is_long(b'[0.00012345678901234567,"%b"]' % (b"9" * 300_000))


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        (b"1", b"1"),
        (b'["a",1,"b"]', b'["a",1,"b"]'),
        (b'["%b",1]', b"[,1]"),
        (b'["%b","\\"",{"a":"\\\\"}]', b"[,,{:}]"),
        (b'["%b\\"', b'["%b\\"'),
    ],
)
def test_strings_are_left_out_where_they_are_long(text, bare):
    """Without them, they are as they were: what is long has a hundred of them at most here."""
    filled = (each.replace(b"%b", b"x" * 400_000) for each in (text, bare))
    assert without_strings(next(filled)) == next(filled)


def heavy(message: dict[str, object]) -> bytes:
    return json.dumps(message).replace('"MANY"', f"[{'1,' * LONG}1]").encode()


@pytest.mark.parametrize(
    ("message", "id"),
    [
        ({"jsonrpc": "2.0", "id": 7, "method": "m", "params": {"x": "MANY", "id": 8}}, 7),
        ({"jsonrpc": "2.0", "method": "m", "params": {"x": "MANY", "id": 8}, "id": "7"}, "7"),
        ({"jsonrpc": "2.0", "method": "m", "params": {"x": "MANY", "id": 8}}, ""),
    ],
)
def test_a_message_with_too_much_in_it_is_refused(message, id):
    line = heavy(message)
    refused = decode(line, max_values=LONG)
    assert isinstance(refused, Malformed)
    assert (refused.id, refused.error.code) == (id, -32600)
    assert refused.error.message == "Invalid request: more than 65536 values in one message"
    assert not isinstance(decode(line), Malformed)


def test_a_long_text_that_holds_json_is_one_value():
    text = json.dumps([[]] * LONG)
    message = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"text": text}}
    assert isinstance(decode(json.dumps(message).encode(), max_values=100), Request)


def test_a_batch_may_have_a_third_of_that():
    line = b" [%b1]" % (b"1," * LONG)
    assert isinstance(decode(line, max_values=3 * LONG - 1), Malformed)
    refused = decode(line, max_values=3 * LONG + 15)
    assert isinstance(refused, Malformed)
    assert refused.error.message == "Invalid request: a batch holds at most 1000 messages"


def with_integer(number: int, size: int) -> bytes:
    text = f'{{"jsonrpc":"2.0","id":7,"method":"m","params":{{"number":{number},"text":""}}}}'
    return text.replace('""', f'"{"x" * (size - len(text))}"').encode()


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**30])
def test_integers_beyond_64_bits_are_kept_in_a_message_that_is_not_too_long(number):
    kept = decode(with_integer(number, LONG), max_values=LONG)
    assert isinstance(kept, Request)
    assert kept.params["number"] == number
    refused = decode(with_integer(number, LONG + 1), max_values=LONG)
    assert isinstance(refused, Malformed)
    assert (refused.id, refused.error.code) == (7, -32600)
    why = "Invalid request: integers beyond 64 bits in a message of more than 65536 bytes"
    assert refused.error.message == why


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63)])
def test_others_are_kept_in_any(number):
    kept = decode(with_integer(number, 2 * LONG), max_values=LONG)
    assert isinstance(kept, Request)
    assert kept.params["number"] == number
