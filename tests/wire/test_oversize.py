import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire.errors import INVALID_REQUEST, PARSE_ERROR
from trio_mcp.wire.framing import Oversized
from trio_mcp.wire.ids import find_id
from trio_mcp.wire.jsonrpc import answer_oversized, megabytes


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    ("head", "id"),
    [
        (b'{"jsonrpc":"2.0","id":12,"method":"x","params":{"a":"xxxx', 12),
        (b' { "id" : "a\\"b" , "x', 'a"b'),
        (b'{"params":{"id":5},"id": "z", "q":"', "z"),
        (b'{"params":[{"id":5}],"id":-7,', -7),
        (b'{"x":"\\"id\\":1,","id":3}', 3),
    ],
)
def test_the_top_level_id_is_found(head, id):
    assert find_id(head) == id


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    "head",
    [
        b'{"params":{"id":5,"a":"xxx',  # nested
        b'{"id":12',  # may go on: 123
        b'{"id":"abc',  # breaks off
        b'{"id":null,"x',
        b'{"id":1.5,"x',
        b'{"id":true,"x',
        b'{"id":{"id":1},"x',
        b'[{"id":1},',
        b'{"data":"{\\"id\\":1,',  # within a string that breaks off
        b'"id":1,',
        b"xxxxxxxxx",
        b"",
        b"\xff\xfe" * 500,
    ],
)
def test_what_is_not_the_requests_id_is_not_taken_for_it(head):
    assert find_id(head) is None


@given(st.binary(max_size=1024))
def test_arbitrary_bytes_do_not_disturb_the_search(head):
    assert find_id(head) is None or isinstance(find_id(head), str | int)


@pytest.mark.requirement("A7")
def test_with_an_id_the_request_is_too_large():
    answer = answer_oversized(Oversized(b'{"id":"q","x":"', 10 * 1024 * 1024))
    assert (answer.id, answer.error.code) == ("q", INVALID_REQUEST)
    assert answer.error.message == "Request too large"


@pytest.mark.requirement("A7")
def test_without_an_id_it_is_a_parse_error_that_names_the_limit():
    answer = answer_oversized(Oversized(b"xxxx", 10 * 1024 * 1024))
    assert (answer.id, answer.error.code) == ("", PARSE_ERROR)
    assert answer.error.message == "Request exceeds 10MB limit"


def test_sizes_are_written_in_megabytes():
    assert megabytes(10 * 1024 * 1024) == "10MB"
    assert megabytes(11 * 1024 * 1024 + 600 * 1024) == "11.6MB"
