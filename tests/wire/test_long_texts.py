"""Long texts that are parsed apart: what is read so is what was written, and nothing is lost."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trio_mcp.wire import long_texts
from trio_mcp.wire.jsonrpc import Malformed, Request, Response, decode
from trio_mcp.wire.long_texts import loads_around

pytestmark = pytest.mark.requirement("A3", "E9")

MANY = 3_000_000
CODE = 'def f(x):\n\treturn f"{x}" + "\\n" + \'\\\\\'\n'
JSON = json.dumps([{"id": 7, "name": "Zo\u00eb", "jsonrpc": "2.0"}])
KINDS = {
    "words": "a text of many words, ",
    "code": CODE,
    "JSON": JSON,
    "quotes": '"',
    "paths": "C:\\a\\b",
    "JSON within JSON": json.dumps(JSON),
    "not ASCII": "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0",
    "beyond 16 bits": "\U0001f600",
}


def filled(kind: str, size: int = 400_000) -> str:
    return KINDS[kind] * (size // len(KINDS[kind]))


def judged(line: bytes) -> Any:
    """Read a line by other means.

    Raises:
        ValueError: It is not JSON, or a key is repeated in it.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key is repeated")
        return dict(pairs)

    def refused(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(line.decode(), object_pairs_hook=unique, parse_constant=refused)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_long_text_is_parsed_apart(kind, ascii_only, separators):
    text = filled(kind)
    for value in (
        {"content": [{"type": "text", "text": text}], "isError": False},
        {"id": 1, "params": {"name": "write", "arguments": {"path": "a/b", "content": text}}},
        {"text": text, "numbers": [1, 2.5, None, True, -(2**63)]},
        [text],
        ["short", text],
        ["short, with an escape: \n", {"text": text + "\n"}, 2**70],
    ):
        line = json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode()
        assert repr(loads_around(line, MANY, MANY)) == repr(value)


@pytest.mark.parametrize("kind", KINDS)
def test_an_array_of_long_texts_is_parsed_apart(kind):
    texts = [filled(kind, 20_000)] * 14
    value = {"a": 1, "texts": [*texts, "a short one", texts[0]], "b": {}}
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    assert loads_around(line, 4_000_000, MANY) == value
    assert loads_around(line, 20, MANY) is None  # for its commas


def test_an_array_is_parsed_apart_only_if_there_is_not_too_much_in_it():
    line = json.dumps([filled("code"), *[[]] * 100_000, filled("code")], separators=(",", ":"))
    message = f'{{"jsonrpc":"2.0","id":7,"result":{line}}}'.encode()
    assert loads_around(message, 400_000, MANY) is None
    refused = decode(message, max_values=400_000)
    assert isinstance(refused, Malformed)
    assert (refused.id, refused.error.data) == (7, {"maxValues": 400_000})
    assert isinstance(decode(message), Response)
    texts = json.dumps([filled("code"), *["short"] * 10_000, filled("code")]).encode()
    assert loads_around(texts, 5_000, MANY) is None


def test_a_name_is_not_taken_for_a_text_however_long_it_is():
    for value in ({filled("words"): 1}, {"a": {filled("words"): "b"}}):
        line = json.dumps(value).encode()
        assert loads_around(line, MANY, MANY) in (None, value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,", " :\n")])
def test_long_texts_in_objects_are_parsed_apart(kind, separators):
    text = filled(kind, 30_000)
    pictures = [
        {"type": "text", "text": text + "\n"},
        {"type": "image", "data": "iVBORw0KGgo" * 2000, "mimeType": "image/png"},
    ]
    for blocks in (
        [{"type": "text", "text": text}] * 20,
        [{"type": "text", "text": "See these files:"}, *[{"text": text, "type": "text"}] * 20],
        [{"role": role, "content": text} for role in ("user", "assistant") * 10],
        [{"resource": {"uri": f"file:///{n}.py", "text": text + str(n)}} for n in range(20)],
        [*pictures * 8, {"type": "text", "text": "That is all."}],
    ):
        value = {"content": blocks, "isError": False}
        line = json.dumps(value, ensure_ascii=False, separators=separators).encode()
        assert loads_around(line, 4_000, MANY) == value
        assert loads_around(line, 40, MANY) is None


def test_short_texts_in_objects_are_not_parsed_apart():
    blocks = [{"text": filled("code", 2_000)}, *[{"text": filled("code", 1_000)}] * 400]
    assert loads_around(json.dumps(blocks).encode(), MANY, MANY) is None


def test_each_member_beside_long_texts_in_objects_counts():
    text = json.dumps(filled("code", 30_000))
    for wrong in ('"text":1', '"type":""', r'"t\u0079pe":""', '"text":"a long text"'):
        blocks = [f'{{"type":"text","text":{text}}}'] * 20
        blocks[9] = f'{{"type":"text","text":{text},{wrong}}}'
        line = f'{{"jsonrpc":"2.0","id":1,"result":{{"content":[{",".join(blocks)}]}}}}'.encode()
        assert loads_around(line, MANY, MANY) is None
        message = decode(line)
        assert isinstance(message, Malformed)
        assert message.error.message.startswith("Invalid request: repeated key")
    blocks[9] = f'{{"type":{2**64},"text":{text}}}'
    line = f"[{','.join(blocks)}]".encode()
    assert loads_around(line, MANY, MANY)[9]["type"] == 2**64


@pytest.mark.parametrize("levels", [252, 253, 254, 255])
def test_a_text_counts_as_deep_as_it_is(levels):
    """Beside a text, and in an array of texts, as anywhere else."""
    text = json.dumps(filled("code"))
    for inner in (text, f"{text},{text}"):
        value = "[" * levels + inner + "]" + ",0]" * (levels - 1)
        line = f'{{"jsonrpc":"2.0","id":1,"result":{value}}}'.encode()
        assert (loads_around(line, MANY, MANY) is None) == (levels > 253)
        assert isinstance(decode(line), Response if levels <= 253 else Malformed)


def test_a_text_is_read_exactly_if_its_end_is_not_found():
    for text in ("\\" * 400_000, filled("code") + "\\" * 2000, filled("code") + '"' * 2001):
        value = {"text": [text], "more": ["a", "b", "c"] * 500}
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": value}).encode()
        assert loads_around(line, MANY, MANY) is None
        assert decode(line) == Response(1, value)


@pytest.mark.parametrize(
    "escape", [r"\n", r"\\", r"\"", r"\u00e9", r"\ud83d\ude00", "\u00e9", "\U0001f600"]
)
def test_no_escape_sequence_is_cut(escape):
    """Wherever it is near the end of a slice, which is 128 KiB long."""
    for end in range(131_072 - 30, 131_072 + 20):
        body = f"{'x' * end}{escape}{'plain words ' * 20_000}"
        line = f'{{"text":"{body}"}}'.encode()
        assert loads_around(line, MANY, MANY) == json.loads(line)


@pytest.mark.parametrize("name", ["a", "text", "a long text", "x" * 400_000])
@pytest.mark.parametrize("long", [filled("words"), filled("code")])
def test_a_repeated_key_is_found_wherever_it_stands(name, long):
    key, text = json.dumps(name), json.dumps(long)
    for value in (
        f"{{{key}:1,{key}:{text}}}",
        f"{{{key}:{text},{key}:1}}",
        f'{{{key}:{text},"b":2,{key}:{text}}}',
        f'{{"b":[{text}],{key}:{{}}, {key} :0}}',
        f'{{"b":[{text},{{{key}:0,{key}:{text}}}]}}',
        f'{{"b":[{text},{{{key}:0,{key}:0}},{text}]}}',
        f'{{"b":{text},{text}:[{{{key}:1,"a":2,{key}:3}}]}}',
        f"{{{text}:1,{text}:2}}",
    ):
        assert loads_around(value.encode(), MANY, MANY) is None
        line = f'{{"jsonrpc":"2.0","id":1,"method":"m","params":{value}}}'.encode()
        message = decode(line)
        assert isinstance(message, Malformed)
        assert message.error.message.startswith("Invalid request: repeated key")


@pytest.mark.parametrize("text", ["a long text", r"a l\u006fng text", r"\u0061 long text"])
def test_other_texts_are_not_taken_for_it(text):
    long = json.dumps(filled("code"))
    for value in (
        f'{{"a":"{text}","b":{long}}}',
        f'{{"a":{long},"b":"{text}"}}',
        f'{{"{text}":{long}}}',
        f'{{{long}:"{text}"}}',
        f'["{text}",[{long}]]',
    ):
        line = f'{{"jsonrpc":"2.0","id":1,"result":{value}}}'.encode()
        assert decode(line) == Response(1, json.loads(value))


def test_long_integers_around_a_long_text_are_kept():
    long = filled("code")
    params = {"number": 2**64, "text": long, "other": [-(2**63) - 1, 10**40]}
    line = json.dumps({"jsonrpc": "2.0", "id": 2**70, "method": "m", "params": params}).encode()
    assert repr(decode(line)) == repr(Request(2**70, "m", params))
    array = json.dumps({"jsonrpc": "2.0", "id": 1, "result": [long, 2**64, long]}).encode()
    assert decode(array) == Response(1, [long, 2**64, long])


@pytest.mark.parametrize(
    "wrong", ["\x01", "\n", r"\x", r"\ud800", r"\udc00\ud800", '"', "\\", '",', '":', '"]', '"}']
)
@pytest.mark.parametrize("place", [0, 1_000, 131_072, 270_000])
def test_what_is_not_json_is_a_parse_error(wrong, place):
    text = "x" * place + wrong + "x" * (280_000 - place)
    block = '{"text":"' + "x" * 30_000 + '"}'
    for value in (
        f'{{"text":"{text}"}}',
        f'["{text}"]',
        f'["{text}","b"]',
        f'[{block},{{"text":"{text}"}},{block}]',
    ):
        line = f'{{"jsonrpc":"2.0","id":1,"result":{value}}}'.encode()
        assert loads_around(line, MANY, MANY) is None
        message = decode(line)
        assert isinstance(message, Malformed)
        assert message.error.code == -32700


@pytest.mark.parametrize("size", [30_000, 200_000])
@pytest.mark.parametrize("which", [0, 5, 9])
def test_no_quotation_mark_is_taken_for_granted(size, which):
    blocks = ['{"text":"' + "x" * size + '"}'] * 10
    blocks[which] = blocks[which].replace('"}', "}")
    assert loads_around(f"[{','.join(blocks)}]".encode(), MANY, MANY) is None


# -- whatever is written ----------------------------------------------------------------------

TOKENS = [
    *(
        "plain words",
        "a long text",
        " ",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "0" * 20,
        "\u00e9",
        "\U0001f600",
    ),
    *(
        r"\n",
        r"\"",
        r"\\",
        r"\/",
        r"\u0061",
        r"\u0022",
        r"\ud83d\ude00",
        r"\",\"",
        r"\":\"",
        r"a\\",
    ),
]
MEMBERS = [
    *("", '"a":0', '"b":1', '"c":-0', '"a long text":{}', r'"a l\u006fng text":""', r'"\u0061":2'),
    *('"b":"a long text"', r'"b":"a l\u006fng text"', f'"b":{2**64}', '"b":{"a":1,"a":2}'),
]
ITEMS = [
    "",
    "1",
    '"a"',
    "[]",
    '["a long text"]',
    f"{2**64}",
    '{"a":1,"a":2}',
    '{"a":1}',
    r'"\ud83d"',
]
SHAPES = [
    '{@"a":#@}',
    '{@"a":[#]@}',
    '{@"a":{"b":[#]}@}',
    "{@#:1@}",
    "[@#@]",
    "[@[#]@]",
    '[@{"a":#}@]',
    '{@"a":[{"d":#}]@}',
    '{@"a":{"d":#}@}',
]
BETWEEN = ['},{"d":', '}, {"d":', ',"e":1},{"d":', '},{"c":{},"d":', ',"e":', ',"d":']


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """What is mostly a long text, or several: JSON, or almost."""
    shape = draw(st.sampled_from(SHAPES))
    bodies = st.lists(st.sampled_from(TOKENS), min_size=40, max_size=60).map("".join)
    texts = [f'"{draw(bodies)}"', *draw(st.lists(st.sampled_from(ITEMS[1:4]), max_size=1))]
    texts += [f'"{body}"' for body in draw(st.lists(bodies, max_size=3))]
    beside = MEMBERS if shape[0] == "{" else ITEMS
    before, behind = (draw(st.sampled_from(beside)) for _ in range(2))
    line = shape.replace("@", f"{before}," if before else "", 1)
    between = draw(st.sampled_from(BETWEEN)) if '"d"' in shape else ","
    line = line.replace("@", f",{behind}" if behind else "").replace("#", between.join(texts))
    if draw(st.integers(0, 5)) == 0:  # something of it is left out
        at = draw(st.integers(0, len(line)))
        line = line[:at] + line[at + 1 :]
    return line.encode()


@settings(max_examples=8 * settings().max_examples)
@given(line=lines())
def test_what_is_read_is_what_is_written(line):
    with pytest.MonkeyPatch.context() as patch:
        sizes = {"_SHORTEST": 80, "_ENDS": 40, "_LATEST": 40, "_SLICE": 4, "_LEAST": 4, "_NEAR": 30}
        for name, size in sizes.items():
            patch.setattr(long_texts, name, size)
        value = loads_around(line, MANY, MANY)
    if value is not None:
        assert repr(value).replace("-0", "0") == repr(judged(line)).replace("-0", "0")
