import json
import math
import subprocess
import sys
import tracemalloc
from collections import Counter, OrderedDict
from dataclasses import dataclass
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire.errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, McpError
from trio_mcp.wire.jsonrpc import (
    MAX_DEPTH,
    Batch,
    Malformed,
    Notification,
    Request,
    Response,
    decode,
    encode,
    error_line,
    join_batch,
    result_line,
    trimmed,
)
from trio_mcp.wire.nested_arrays import MOST_ARRAYS, TooManyArrays

ESCAPES = r"{\"a\": \"b\",\n\"a\":\"\\\", \"}" * 500


def request_with(value: str, padding: int = 0, filler: str = "x") -> bytes:
    beside = f',"padding":"{filler * padding}"' if padding else ""
    text = '{"jsonrpc":"2.0","id":1,"method":"m","params":{"value":' + value + beside + "}}"
    return text.encode("utf-8", "surrogatepass")


def value_of(text: str):
    message = decode(request_with(text))
    assert isinstance(message, Request), message
    return message.params["value"]


def refused(line: bytes) -> tuple[str | int, int, str]:
    message = decode(line)
    assert isinstance(message, Malformed), message
    return message.id, message.error.code, message.error.message


# -- what is served ---------------------------------------------------------------------------


def test_a_request():
    line = b'{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":[1,{}]},"extra":0}'
    assert decode(line) == Request("a", "m", {"x": [1, {}]})


@pytest.mark.requirement("A10")
def test_params_may_be_null_or_absent():
    assert decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}') == Request(1, "m", {})
    assert decode(b'{"jsonrpc":"2.0","id":1,"method":"m"}') == Request(1, "m", {})


def test_a_notification():
    assert decode(b'{"jsonrpc":"2.0","method":"m","params":{"a":1}}') == Notification("m", {"a": 1})
    assert decode(b'{"jsonrpc":"2.0","method":"m","params":[1]}') == Notification("m", {})


def test_responses():
    assert decode(b'{"jsonrpc":"2.0","id":1,"result":null}') == Response(1, None)
    failed = decode(b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no","data":[1]}}')
    assert isinstance(failed, Response)
    assert failed.error is not None
    assert (failed.error.code, failed.error.message, failed.error.data) == (-1, "no", [1])
    odd = decode(b'{"jsonrpc":"2.0","id":1,"error":"no"}')
    assert isinstance(odd, Response)
    assert odd.error is not None


@pytest.mark.requirement("A4")
@pytest.mark.parametrize("line", [b"", b" ", b"\t", b"\r", b" \t \r"])
def test_blank_lines_are_nothing(line):
    assert decode(line) is None


@pytest.mark.requirement("A4")
def test_white_space_around_a_message_is_trimmed():
    assert decode(b' \t{"jsonrpc":"2.0","id":1,"method":"m"}\t \r') == Request(1, "m", {})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("-9223372036854775809", -9223372036854775809),
        ("18446744073709551616", 18446744073709551616),
        ("18446744073709551615", 18446744073709551615),
        ("[9007199254740993, 1e3, -0.5]", [9007199254740993, 1000.0, -0.5]),
        (r'"\u0000"', "\0"),
        (r'"\ud83d\ude00 \u00e9"', "\U0001f600 é"),
        ('"1234567890123456789012345"', "1234567890123456789012345"),
        (r'{"a\":":"\\",":":":::"}', {'a":': "\\", ":": ":::"}),
    ],
)
@pytest.mark.requirement("A3")
def test_values_are_served_exactly(text, value):
    assert value_of(text) == value
    assert type(value_of(text)) is type(value)


def test_a_byte_order_mark_is_ignored():
    line = b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"m"}'
    assert decode(line) == Request(1, "m", {})


def test_a_huge_id_is_echoed_exactly():
    message = decode(b'{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"m"}')
    assert isinstance(message, Request)
    assert json.loads(result_line(message.id, {}))["id"] == 123456789012345678901234567890


# -- what is refused --------------------------------------------------------------------------


@pytest.mark.requirement("A6")
@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"{]",
        b"nonsense",
        b'{"jsonrpc":"2.0","id":1,"method":"m"}}',
        request_with("01"),
        request_with("'x'"),
        b'{"jsonrpc":"2.0","id":1,"meth',
        b'{"jsonrpc":"2.0","id":1,"method":"m"}{"jsonrpc":"2.0","id":2,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":NaN},"id":2}',
        b'{"jsonrpc":"2.0","id":"\xff","method":"m"}',
        rb'{"jsonrpc":"2.0","id":"\ud800","method":"m"}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"m"}',
        b'{"jsonrpc":"2.0","params":{"id":1},"method":NaN}',
        b'[{"jsonrpc":"2.0","id":1,"method":NaN}]',
        b"\xef\xbb\xbf " * 100_000,
        b"NaN",
        b"\x00",
        b"[" * 5000 + b"]" * 5000,
    ],
)
def test_malformed_json_is_a_parse_error_with_the_empty_id(line):
    id, code, message = refused(line)
    assert (id, code) == ("", PARSE_ERROR)
    assert message.startswith("Parse error: ")


@pytest.mark.requirement("A6")
@pytest.mark.parametrize("id", [1, "a", "\u00e9", 10**30])
@pytest.mark.parametrize("padding", ["", "x" * 2**20])
@pytest.mark.parametrize(
    "value",
    [
        b"NaN",
        b"-Infinity",
        b"2.5e999",
        b"9" * 400,
        b'"\xed\xa0\x80"',
        rb'"\ud800"',
        rb'"\udc00\ud800"',
        b'"\x00"',
        b'"a\tb"',
        b'"\xff"',
    ],
)
def test_a_request_that_cannot_be_read_but_for_its_id_is_answered_under_that(id, padding, value):
    head = json.dumps({"jsonrpc": "2.0", "id": id}, ensure_ascii=False).encode()[:-1]
    line = (
        head + b',"method":"m","params":{"x":' + value + b"," + f'"y":"{padding}"'.encode() + b"}}"
    )
    got, code, message = refused(line)
    assert (got, code) == (id, PARSE_ERROR)
    assert message.startswith("Parse error: ")


@pytest.mark.requirement("A6")
def test_a_byte_order_mark_behind_a_request_is_answered_under_its_id():
    assert refused(b'{"jsonrpc":"2.0","id":1,"method":"m"}\xef\xbb\xbf\r')[:2] == (1, PARSE_ERROR)


@pytest.mark.requirement("A6")
@pytest.mark.parametrize(
    "line",
    [
        request_with("NaN"),
        request_with('{"secret":1,"secret":2}'),
        request_with("[" * 300 + "]" * 300),
        b'{"jsonrpc":"2.0","id":1,"method":["secret"]}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":"secret"}',
        b'["secret", {"secret": 1}, "secret"]',
        b"secret",
        b"\xff secret",
        b"[]",
    ],
)
def test_what_is_malformed_tells_a_log_its_size_and_no_content(line):
    message = decode(line, 2)
    assert isinstance(message, Malformed)
    assert message.size == len(line)
    assert message.cause
    assert "secret" not in message.cause


@pytest.mark.requirement("A6")
def test_invalid_utf8_is_named():
    assert "invalid UTF-8 at byte 34" in refused(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}')[2]


@pytest.mark.requirement("A6", "A12")
@pytest.mark.parametrize(
    ("line", "id", "why"),
    [
        (b"1", "", "must be a JSON object, not a number"),
        (b'"x"', "", "must be a JSON object, not a string"),
        (b"null", "", "must be a JSON object"),
        (b"{}", "", '"jsonrpc" must be "2.0"'),
        (b'{"id":7,"method":"m"}', 7, '"jsonrpc" must be "2.0"'),
        (b'{"jsonrpc":2.0,"id":7,"method":"m"}', 7, '"jsonrpc" must be "2.0", not a number'),
        (b'{"jsonrpc":"1.0","id":7,"method":"m"}', 7, '"jsonrpc" must be "2.0"'),
        (b'{"jsonrpc":"2.0","id":7}', 7, '"method" is missing'),
        (b'{"jsonrpc":"2.0","id":7,"method":null}', 7, '"method" must be a string'),
        (b'{"jsonrpc":"2.0","id":7,"method":["m"]}', 7, '"method" must be a string, not an array'),
        (b'{"jsonrpc":"2.0","method":{}}', "", '"method" must be a string, not an object'),
        (b'{"jsonrpc":"2.0","id":null,"method":"m"}', "", '"id" must be a string or an integer'),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"m"}', "", '"id" must be a string or an integer'),
        (b'{"jsonrpc":"2.0","id":true,"method":"m"}', "", "not a boolean"),
        (b'{"jsonrpc":"2.0","id":[],"method":"m"}', "", "not an array"),
        (b'{"jsonrpc":"2.0","id":{},"result":1}', "", "not an object"),
        (b'{"jsonrpc":"2.0","id":"%1025d","method":"m"}' % 1, "", '"id" may have at most 1024'),
        (b'{"jsonrpc":"2.0","id":"%1025d","result":1}' % 1, "", '"id" may have at most 1024'),
        (b"[]", "", "empty batch"),
    ],
)
def test_json_that_is_no_message_is_an_invalid_request(line, id, why):
    got, code, message = refused(line)
    assert (got, code) == (id, INVALID_REQUEST)
    assert message.startswith("Invalid request: ")
    assert why in message


@pytest.mark.requirement("A12")
def test_params_that_are_no_object_are_invalid_params():
    line = b'{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}'
    assert refused(line) == (
        7,
        INVALID_PARAMS,
        'Invalid params: "params" must be an object, not an array',
    )


def test_repeated_keys_are_refused_at_any_depth():
    assert refused(request_with('{"a":1,"b":{"c":1,"c":2}}')) == (
        1,
        INVALID_REQUEST,
        'Invalid request: repeated key "c"',
    )
    assert refused(b'{"jsonrpc":"2.0","id":1,"method":"m","\\u0061":1,"a":2}')[0] == 1
    for colon in (r"\u003a", r"\u003A"):
        hidden = request_with(f'{{"a":1,"a":1,"b":"{colon}"}}')
        assert refused(hidden)[2].endswith('repeated key "a"')


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":1, "a":2}',
        '{"a":1,\n"a":2}',
        '{"a":1,\t"a" :2}',
        '[{"a":",","a":","}]',
        '[["a","b"],{"a":{"a":1},"b":0,"a":{"a":1}}]',
    ],
)
def test_repeated_keys_are_found_among_many_escapes(text):
    for value in (text, f'["{ESCAPES}",{text}]', f'[{text},"{ESCAPES}"]'):
        assert refused(request_with(value, 2_000, r"\"\n"))[2].endswith('repeated key "a"')


def test_many_escapes_are_read_exactly():
    for text in (
        f'{{"a":"{ESCAPES}","b":[1,"{ESCAPES}"],"c":[]}}',
        f'{{"a":"{ESCAPES},","b":2e99}}',
        f'["{ESCAPES}",{2**64}]',
        f'["{ESCAPES}",{[1] * 1000}]',
        f'[{"[" * 100}"{ESCAPES}"{",0]" * 100}]',
    ):
        assert repr(value_of(text)) == repr(json.loads(text))


@pytest.mark.parametrize("padding", [0, 5_000, 300_000])
@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**50, 10**18])
def test_long_integers_are_kept_wherever_they_stand(number, padding):
    hidden = r"\u0031" * 19  # which is one more run of digits once it is read
    for text in (
        f"{number}",
        f"[0.{abs(number)}, {number}]",
        f"[1.2345678901234567e-5, {number}]",  # of which orjson makes 0.000012345678901234567
        f'["{hidden}",{{"x":{number}}}]',
    ):
        message = decode(request_with(text, padding))
        assert isinstance(message, Request)
        assert message.params["value"] == json.loads(text)


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 2**63, 1e300])
@pytest.mark.parametrize("beside", [[0.1] * 500, [2**62] * 500, [-(2**63)] * 500, ["1"] * 500])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("padding", [5_000, 300_000])
def test_long_integers_are_kept_among_many_numbers(number, beside, separators, padding):
    for value in ([*beside, number], [number, *beside], {"a": beside, "b": {"c": number}}):
        text = json.dumps(value, separators=separators)
        message = decode(request_with(text, padding))
        assert isinstance(message, Request)
        assert repr(message.params["value"]) == repr(value)


@pytest.mark.parametrize("padding", ["", "x" * 2**20])
def test_a_repeated_id_is_no_id(padding):
    def id_of(text: str) -> str | int:
        return refused(text.replace("PADDING", padding).encode())[0]

    assert id_of('{"jsonrpc":"2.0","id":1,"method":"mPADDING","id":2}') == ""
    assert id_of('{"jsonrpc":"2.0","id":1,"method":"mPADDING","\\u0069d":1}') == ""
    assert id_of('{"jsonrpc":"2.0","id":1,"params":{"id":1,"id":"PADDING"},"method":"m"}') == 1


ROWS = {
    "compact": '{"a":1,"b":"x","c":null}',
    "spaced": '{"a": 1, "b": "x", "c": null}',
    "escaped": r'{"a":"Zo\u00eb","b":"\"","c":1.5}',
    "with colons": '{"a":"12:30","b":"x","c":null}',
    "with brackets": '{"a":"[","b":["x"],"c":null}',
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("at", [0, 250, 500])
def test_nothing_is_lost_among_rows(row, at):
    """Their names are counted, and so are the colons of the text."""
    for repeating in (
        '{"a":1,"a":2}',
        '{"a":1, "a" :2}',
        r'{"\u0061":1,"a":2}',
        '{"a":1,"b":":","a":2}',
        r'{"a":1,"b":"\u003a","a":2}',
        '{"a":{"b":1,"b":2}}',
        '{"a":[{"b":1,"b":2}]}',
        '"xy",{"a":1,"b":2,"a":3,"b":4}',
        '["x","y"],{"a":1,"b":2,"a":3,"b":4}',
        '{"a":{"a":0},"a":1}',
    ):
        assert "repeated key" in refused(request_with(among(row, at, repeating)))[2]
    for other in (
        f'{{"a":{2**64}}}',
        f"[{-(2**70)}]",
        '{"a":{"b":{}}}',
        "{}",
        '"x:"',
        '{"a:":":"}',
    ):
        text = among(row, at, other)
        assert repr(value_of(text)) == repr(json.loads(text))
    for rows in (f"[{row}]", f'{{"a":0,"b":[{among(row, at, row)}]}}'):
        assert (
            "repeated key" in refused(request_with(f'{{"a":{rows},"a":{among(row, 0, row)}}}'))[2]
        )
    for levels, why in (
        ("[" * 300 + "]" * 300, str(TooManyArrays())),
        ('{"a":' * 300 + "0" + "}" * 300, f"more than {MAX_DEPTH} levels deep"),
    ):
        for deep in (among(row, at, f'{{"a":{levels}}}'), f"[{levels},{among(row, 0, row)}]"):
            assert refused(request_with(deep))[2].endswith(why)


def among(row: str, at: int, other: str) -> str:
    return f"[{','.join([*[row] * at, other, *[row] * (500 - at)])}]"


@pytest.mark.long
def test_repeated_keys_are_found_however_many_there_are():
    """Not in the square of their number: that would be half an hour here."""
    many = ",".join(f'"{number}":0' for number in range(400_000))
    id, code, message = refused(request_with("{" + many + ',"399999":1}'))
    assert (id, code, message) == (1, INVALID_REQUEST, "Invalid request: repeated key")
    few = ",".join(f'"{number}":0' for number in range(20_000))
    assert refused(request_with("{" + few + ',"19999":1}'))[2].endswith('repeated key "19999"')


def test_a_long_key_is_named_in_short():
    key = "x" * 10_000
    assert len(refused(request_with(f'{{"{key}":1,"{key}":1}}'))[2]) < 200


def test_nesting_is_served_up_to_a_depth_and_refused_beyond():
    served = MAX_DEPTH - 2  # the message and its params are levels too
    for begin, end in (('{"a":', "}"), ("[", ",0]")):
        assert value_of(begin * served + "0" + end * served)
        for depth in (served + 1, served + 5, 1000):
            id, code, message = refused(request_with(begin * depth + "0" + end * depth))
            assert (id, code) == (1, INVALID_REQUEST)
            assert "levels deep" in message


@pytest.mark.parametrize("between", ["", "]", '"]",', "] , "])
@pytest.mark.parametrize("size", [0, 2000, 100_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ("[0, ", "\n]"), ('["]",', " ]")])
def test_so_many_arrays_may_end_together(begin, end, size, between):
    around = json.dumps(["x" * size, between * 30, "]" * 500])[:-1] + ",%s]"
    most = MOST_ARRAYS - 1  # one is around it
    text = around % (begin * most + "0" + end * most)
    assert value_of(text) == json.loads(text)
    text = around % (begin * MOST_ARRAYS + "0" + end * MOST_ARRAYS)
    id, code, message = refused(request_with(text))
    assert (id, code) == (1, INVALID_REQUEST)
    assert message == f"Invalid request: {TooManyArrays()}"


@pytest.mark.parametrize("size", [0, 5000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ("[0,", " \n]")])
def test_arrays_are_counted_where_no_others_end(begin, end, size):
    """Not even in a text, and a short message is as it would be written."""
    text = begin * MOST_ARRAYS + "0" + end * MOST_ARRAYS
    message = decode(request_with(text, size))
    assert isinstance(message, Request)
    assert message.params["value"] == json.loads(text)
    id, code, why = refused(request_with(f"{begin}{text}{end}", size))
    assert (id, code, why) == (1, INVALID_REQUEST, f"Invalid request: {TooManyArrays()}")


@pytest.mark.parametrize("first", ["0", "1.5", "true"])
@pytest.mark.parametrize("count", [100, 200])
def test_arrays_are_counted_in_long_lists_too(first, count):
    """Such lists are looked at as a whole, and a long text beside them is left out."""
    row = f"{first}," * count
    nested = "[" * (MOST_ARRAYS - 1) + "0" + "]" * (MOST_ARRAYS - 1)
    assert isinstance(decode(request_with(f"[{row}{nested}]", 100_000)), Request)
    id, code, why = refused(request_with(f"[{row}[{nested}]]", 100_000))
    assert (id, code, why) == (1, INVALID_REQUEST, f"Invalid request: {TooManyArrays()}")


def test_nested_arrays_do_not_end_the_process():
    """The encoder has no room for the ends of more than 30 arrays."""
    rows = 1
    for level in range(235):
        rows = [rows] * (100 if level == 231 else 1)
    line = request_with(json.dumps([[[rows, rows]]], separators=(",", ":")))
    code = "import sys; from trio_mcp.wire.jsonrpc import *; print(decode(sys.stdin.buffer.read()))"
    done = subprocess.run([sys.executable, "-c", code], input=line, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert str(TooManyArrays()).encode() in done.stdout


def arrays(count: int, kind=list):
    value = 0
    for _ in range(count):
        value = kind([1, value])
    return value


@dataclass
class Holder:
    held: object


@pytest.mark.parametrize("count", [1, 400])
def test_objects_that_end_together_are_read_among_escapes(count):
    """Some encoders escape each `<`, and pages are nested deeply."""
    levels = 2 * MOST_ARRAYS
    page = '{"tag":"\\u003cp","in":[' * levels + "]}" * levels
    pages = f"[{','.join([page] * count)}]"
    assert value_of(pages) == json.loads(pages)
    assert "repeated key" in refused(request_with(pages.replace("]}]}]", ']}]}],"in":0', 1)))[2]


class Chained(Enum):
    HALF = arrays(MOST_ARRAYS // 2)
    MOST = arrays(MOST_ARRAYS)
    TOO_MANY = arrays(MOST_ARRAYS + 1)


def test_arrays_that_are_values_of_enumerations_are_counted():
    value = Chained.HALF
    for _ in range(MOST_ARRAYS // 2):
        value = [0, value]
    assert encode({"value": value, "whole": Chained.MOST})
    for chained in ([value], {"held": (0, value)}, Holder([value]), [Chained.TOO_MANY, 0]):
        with pytest.raises(TooManyArrays):
            encode(chained)


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("many", [0, 5000])
@pytest.mark.parametrize("in_slices", [False, True])
@pytest.mark.parametrize(
    "around", [lambda v: v, lambda v: {"a": [v, 0]}, lambda v: Holder({"a": v})]
)
def test_so_many_arrays_that_end_together_are_written(around, kind, many, in_slices):
    beside = [[number, [number]] for number in range(many)]
    written = encode({"a": beside, "b": around(arrays(MOST_ARRAYS, kind))}, in_slices=in_slices)
    assert json.loads(written)["a"] == beside
    with pytest.raises(TooManyArrays):
        encode({"a": beside, "b": around(arrays(MOST_ARRAYS + 1, kind))}, in_slices=in_slices)


def test_what_holds_itself_is_not_written():
    loop: list[object] = [0] * 300
    loop[5] = loop
    last: list[object] = [{}]
    last.append(last)
    named: dict[str, object] = {}
    named["named"] = [named] * 3
    often: list[object] = []
    often += [often] * 150 + [0] * 100
    for value in (loop, last, named, often):
        with pytest.raises(TypeError):
            encode({"result": value})


def test_a_number_of_too_many_digits_is_refused():
    assert refused(request_with("9" * 5000))[1] in (PARSE_ERROR, INVALID_REQUEST)


# -- batches ----------------------------------------------------------------------------------


@pytest.mark.requirement("A15")
def test_a_batch_holds_messages_and_malformed_entries():
    line = b'[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","method":"n"},5]'
    message = decode(line)
    assert isinstance(message, Batch)
    request, notification, malformed = message.messages
    assert request == Request(1, "m", {})
    assert notification == Notification("n", {})
    assert isinstance(malformed, Malformed)


@pytest.mark.requirement("A15")
def test_a_batch_is_refused_for_its_length_before_its_messages_are_made(monkeypatch):
    """Each of them would take fifty times the memory of `{}`."""
    line = b"[" + b",".join([b"{}"] * 100_000) + b"]"
    monkeypatch.delattr("trio_mcp.wire.jsonrpc._single")
    assert refused(line) == (
        "",
        INVALID_REQUEST,
        "Invalid request: a batch holds at most 1000 messages",
    )
    message = decode(line, 99_999)
    assert isinstance(message, Malformed)
    assert "at most 99999 messages" in message.error.message


def test_a_batch_may_be_as_long_as_allowed():
    message = decode(b"[" + b",".join([b"{}"] * 3) + b"]", 3)
    assert isinstance(message, Batch)
    assert len(message.messages) == 3


# -- encoding ---------------------------------------------------------------------------------


def test_lines_end_with_a_newline_and_have_no_other():
    line = result_line(1, {"text": "a\nb"})
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, [{"x": -math.inf}], {1: 2}, object(), {3}])
def test_what_is_not_json_is_not_encoded(value):
    with pytest.raises(TypeError):
        encode({"value": value})


def test_null_is_encoded():
    assert encode({"value": [None, "null"]}) == b'{"value":[null,"null"]}\n'


def test_what_cannot_be_compared_is_encoded():
    @dataclass
    class Odd:
        x: int = 1

        def __eq__(self, other: object) -> bool:
            raise OSError

    assert encode([None, Odd()]) == b'[null,{"x":1}]\n'


def test_null_among_much_else_is_encoded_in_few_steps():
    value = [{"a": None, "b": [1, True, "null"]}] * 10_000
    calls = Counter()
    sys.setprofile(lambda frame, event, argument: calls.update([event]))
    try:
        line = encode(value)
    finally:
        sys.setprofile(None)
    assert calls["call"] < 100
    assert json.loads(line) == value


@pytest.mark.parametrize(
    "value",
    [
        [None, math.nan],
        [None, (1, math.inf)],
        {"a": [{"b": -math.inf}, None]},
        [None, {"a": [OrderedDict(b=(math.nan,)), "long" * 10_000]}],
        [None, [1.5] * 10_000, [[math.inf]]],
    ],
)
def test_nan_is_found_beside_null(value):
    with pytest.raises(TypeError, match="NaN"):
        encode(value)
    with pytest.raises(TypeError, match="NaN"):
        result_line(1, value)


@pytest.mark.parametrize("padding", [10, 100_000])
def test_nan_is_told_from_null_however_long_the_message_is(padding):
    text = "null" * padding
    assert json.loads(encode({"a": [text, 1.5, None]})) == {"a": [text, 1.5, None]}
    with pytest.raises(TypeError, match="NaN"):
        encode({"a": [text, 1.5, math.nan]})


def test_tuples_beside_null_are_encoded():
    assert encode([None, (1.5, 2)]) == b"[null,[1.5,2]]\n"


def test_long_integers_are_encoded_exactly():
    assert encode({"value": [2**70, "é"]}) == '{"value":[1180591620717411303424,"é"]}\n'.encode()


def test_integers_that_no_reader_takes_are_not_encoded():
    line = encode({"value": 10**308})
    assert json.loads(line) == {"value": 10**308}
    with pytest.raises(TypeError, match="number is infinity"):
        encode({"value": 10**309})


def test_nan_beside_a_long_integer_is_not_encoded():
    with pytest.raises(TypeError):
        encode({"value": [2**70, math.nan]})


@pytest.mark.parametrize("before", [[], [2**70]])
def test_a_value_that_contains_itself_is_not_encoded(before):
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(TypeError):
        encode({"value": [*before, endless]})


def test_a_value_that_is_too_deep_is_not_encoded():
    deep: object = 2**70
    for _ in range(100_000):
        deep = [2**70, deep]
    with pytest.raises(TypeError):
        encode({"value": deep})


def test_error_data_that_is_not_json_is_left_out():
    line = error_line("x", McpError(-5, "no", data=object()))
    assert json.loads(line) == {"jsonrpc": "2.0", "id": "x", "error": {"code": -5, "message": "no"}}


def test_batch_lines_are_joined():
    assert json.loads(join_batch([b'{"a":1}\n', b'{"b":2}\n'])) == [{"a": 1}, {"b": 2}]


# -- properties -------------------------------------------------------------------------------

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_values, st.sampled_from([(",", ":"), (", ", ": ")]), st.booleans())
def test_any_json_value_is_served_exactly(value, separators, ascii_only):
    params = {"value": value}
    text = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "m", "params": params},
        separators=separators,
        ensure_ascii=ascii_only,
    )
    message = decode(text.encode())
    assert isinstance(message, Request)
    assert repr(message.params) == repr(params)
    assert json.loads(encode({"value": message.params["value"]})) == json.loads(json.dumps(params))


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_arbitrary_bytes_never_crash_the_decoder(line):
    decode(line)


@given(json_values)
def test_arbitrary_json_never_crashes_the_decoder(value):
    message = decode(json.dumps(value).encode())
    assert message is not None


@st.composite
def json_texts(draw, depth: int = 0) -> tuple[str, bool]:
    """A text, written in any way that there is, and whether a key is repeated in it."""

    def character(char: str) -> str:
        how = draw(st.integers(0, 3))
        if char in '"\\' or how == 0:
            return f"\\u{ord(char):04x}"
        return f"\\u{ord(char):04X}" if how == 1 else "\\/" if char == "/" and how == 2 else char

    def string(text: str) -> str:
        return '"' + "".join(map(character, text)) + '"'

    def space() -> str:
        return draw(st.sampled_from(["", "", " ", "\t", " \r\n"]))

    names = st.text(st.sampled_from('ab:"{ \\/\u00e97'), max_size=3)
    kind = draw(st.integers(0, 5 if depth < 3 else 2))
    if kind == 0:
        return string(draw(names)), False
    if kind == 1:
        tiny = "0.00000000000000000000012345678901234567"
        small = "1.2345678901234567e-5"
        return draw(st.sampled_from(["1.50", "1e2", "-0", tiny, small, "true", "null"])), False
    if kind == 2:
        return str(draw(st.integers(-(2**70), 2**70))), False
    parts, repeated, keys = [], False, []
    for _ in range(draw(st.integers(0, 3))):
        part, inner = draw(json_texts(depth + 1))
        repeated |= inner
        if kind != 3:
            keys.append(draw(names))
            part = f"{string(keys[-1])}{space()}:{space()}{part}"
        parts.append(f"{space()}{part}{space()}")
    repeated |= len(set(keys)) != len(keys)
    inside = ",".join(parts) or space()
    return (f"[{inside}]" if kind == 3 else f"{{{inside}}}"), repeated


def assert_exact(message, text, repeated):
    """Make sure that a message holds the value that a text says, or is refused for a key."""
    if repeated:
        assert isinstance(message, Malformed)
        assert "repeated key" in message.error.message
    else:
        assert isinstance(message, Request)
        assert repr(message.params["value"]).replace("-0", "0") == repr(json.loads(text)).replace(
            "-0", "0"
        )


@pytest.mark.parametrize(
    ("padding", "filler"),
    [(0, ""), (5_000, "x"), (300_000, "x"), (5_000, r"\""), (5_000, r",\"\n")],
)
@given(case=json_texts())
def test_what_is_written_differently_is_served_exactly_and_what_is_lost_refused(
    case, padding, filler
):
    """However long the message is, and whether strings, or escapes, are most of it."""
    text, repeated = case
    assert_exact(decode(request_with(text, padding, filler)), text, repeated)


@given(case=st.data(), row=st.sampled_from([*ROWS.values()]), at=st.integers(0, 500))
def test_rows_are_served_exactly_or_refused(case, row, at):
    other, repeated = case.draw(json_texts())
    text = among(row, at, other)
    assert_exact(decode(request_with(text)), text, repeated)


# -- speed ------------------------------------------------------------------------------------


@pytest.mark.requirement("E9")
@pytest.mark.parametrize(
    "content",
    [[{"type": "text", "text": "x" * 2**20}], [{"type": "text", "text": "x" * 1000}] * 1000],
    ids=["one text", "many texts"],
)
def test_a_mebibyte_is_parsed_without_a_look_at_each_value(content, monkeypatch):
    """What compact encoders send is parsed once and compared once; both take a millisecond."""
    line = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "result": {"content": content}}, separators=(",", ":")
    ).encode()
    monkeypatch.delattr("trio_mcp.wire.exact._check_by_parsing")
    assert decode(line) == Response(1, {"content": content})


@pytest.mark.requirement("E9")
@pytest.mark.parametrize("indent", [None, 2])
def test_what_python_writes_is_parsed_once_as_well(indent, monkeypatch):
    """Its white space and its escapes are not losses, which shows without parsing again."""
    content = [
        {"a": 1, "text": 'a "b" \\ : {\u00e9, \U0001f600}\n\\u0022 \\\u00e9', "b": [{}, [], 1.5]}
    ] * 10_000
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": content}, indent=indent).encode()
    monkeypatch.delattr("trio_mcp.wire.exact._check_by_parsing")
    assert decode(line) == Response(1, content)


def test_a_line_that_is_kept_takes_no_more_memory_than_it_is_long() -> None:
    tracemalloc.start()
    try:
        kept = [trimmed(encode({"jsonrpc": "2.0", "id": number})) for number in range(1_000)]
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept[7] == encode({"jsonrpc": "2.0", "id": 7})
    assert size < 200 * len(kept)
