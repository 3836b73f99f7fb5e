"""`trio-mcp tools`, `call`, `resources`, `read`, `prompts`, `prompt`: against a server process."""

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cli.support import COMMAND, SHOP, CommandLine, faulty, served
from tests.support.processes import ENVIRONMENT
from trio_mcp import Registry
from trio_mcp.cli.app import run


@pytest.mark.long
def test_the_tools_in_a_table(cli: CommandLine) -> None:
    outcome = cli("tools", SHOP)
    assert (outcome.status, outcome.err) == (0, "")
    rows = {line.split()[0]: line for line in outcome.out.splitlines()}
    assert rows["Tool"].split() == ["Tool", "Arguments", "What", "it", "does"]
    assert "book: string, count: integer" in rows["order"]
    assert "Order a book." in rows["order"]
    assert "text: string, number?: number = 0.0, whole?: integer = 0" in rows["types"]
    assert "\x1b" not in outcome.out


def test_the_tools_as_json(cli: CommandLine, shop: str) -> None:
    tools = {each["name"]: each for each in cli("tools", shop, "--json").json["tools"]}
    assert tools["order"]["inputSchema"]["required"] == ["book", "count"]
    assert tools["order"]["description"] == "Order a book."


def test_one_tool_in_full(cli: CommandLine, shop: str) -> None:
    outcome = cli("tools", shop, "order")
    assert outcome.out.startswith("order(book: string, count: integer)\nOrder a book.\n")
    assert [line.split() for line in outcome.out.splitlines()[-2:]] == [
        ["book", "string", "required", "Its", "title."],
        ["count", "integer", "required", "How", "many."],
    ]
    (tool,) = cli("tools", shop, "order", "--json").json["tools"]
    assert tool["name"] == "order"


def test_no_line_ends_with_blanks(cli: CommandLine, shop: str) -> None:
    for words in (["tools"], ["tools", "types"], ["resources"], ["prompts"], ["doctor"]):
        outcome = cli(words[0], shop, *words[1:])
        assert [each for each in outcome.out.splitlines() if each != each.rstrip()] == []


STRICT: dict[str, Any] = {
    "type": "object",
    "required": ["code"],
    "properties": {
        "days": {"type": "integer", "minimum": 0, "maximum": 365, "default": 7},
        "code": {
            "type": "string",
            "minLength": 2,
            "pattern": "^[a-z]+$",
            "description": "Its code.",
        },
        "day": {"type": "string", "format": "date"},
        "letter": {"enum": list("abcdefghijk")},
    },
}


def test_what_arguments_must_be(cli: CommandLine) -> None:
    registry = Registry("strict")

    @registry.tool(input_schema=STRICT)
    async def strict(**arguments: object) -> None: ...

    with served(registry) as url:
        shown = cli("tools", url, "strict").out
    rows = [re.split(r" {2,}", each) for each in shown.splitlines()]
    assert rows[1:] == [
        ["Argument", "Type", "Must be", "What it is"],
        ["days", "integer", "default 7", "0 to 365"],
        ["code", "string", "required", "at least 2 characters; matching ^[a-z]+$", "Its code."],
        ["day", "string", "a date such as 2024-05-31"],
        ["letter", "a|b|c|d|e|f|g|h|i|j|k"],
    ]


def test_a_call_and_its_types(cli: CommandLine, shop: str) -> None:
    words = ["text=3", "number=3", "whole=3", "flag=true", "tags=3", "anything=3", "nested:={}"]
    outcome = cli("call", shop, "types", *words, "--json")
    assert outcome.status == 0
    expected = {
        "text": "3",
        "number": 3.0,
        "whole": 3,
        "flag": True,
        "tags": ["3"],
        "anything": "3",
        "nested": {},
    }
    assert outcome.json["structuredContent"] == expected
    assert json.loads(outcome.json["content"][0]["text"]) == expected
    assert outcome.json["isError"] is False
    shown = cli("call", shop, "types", '{"text": "as JSON"}')
    assert json.loads(shown.out)["text"] == "as JSON"
    assert shown.out.startswith("{\n  "), "structured content is shown once, and indented"


def test_arguments_from_stdin(cli: CommandLine, shop: str) -> None:
    for words in (["-"], ["--timeout", "50", "-"], ["-", "--timeout", "50"]):
        assert cli("call", shop, "say", *words, stdin='{"words": "hi"}').out == "returned: hi\n"
    mixed = cli("call", shop, "types", "-", "whole=3", "--json", stdin='{"text": "a"}').json
    assert (mixed["structuredContent"]["text"], mixed["structuredContent"]["whole"]) == ("a", 3)


def test_content_of_several_kinds(cli: CommandLine, shop: str) -> None:
    outcome = cli("call", shop, "several")
    assert outcome.out.splitlines() == [
        "A dot:",
        "[image: image/gif, 29 bytes]",
        "[stock: shop://stock]",
    ]


def test_text_is_written_as_it_is_where_there_is_no_terminal(cli: CommandLine, shop: str) -> None:
    assert cli("call", shop, "escape").out == "before \x1b[31m\x1b]0;title\x07 after\n"


def test_a_tool_that_fails(cli: CommandLine, shop: str) -> None:
    outcome = cli("call", shop, "fail", "reason=rain")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error == "tool 'fail' failed: It failed: rain and there is more"
    outcome = cli("call", shop, "fail", "--json")
    assert outcome.status == 1
    assert outcome.json["isError"] is True
    assert outcome.json["content"][0]["text"].startswith("It failed: no reason")


@pytest.mark.long
def test_what_a_tool_prints_is_not_the_result(cli: CommandLine) -> None:
    assert cli("call", SHOP, "say", "words=hello").out == "returned: hello\n"


@pytest.mark.long
def test_a_server_that_dies(cli: CommandLine) -> None:
    outcome = cli("call", SHOP, "die")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error.startswith("the server exited with status 3")


def test_messages_of_the_server(cli: CommandLine, shop: str) -> None:
    assert cli("call", shop, "slow", "seconds=0.1").err == "info: the second step\n"
    quiet = cli("call", shop, "slow", "seconds=0.1", "--log-level", "error")
    assert (quiet.out, quiet.err) == ("packed\n", "")
    legacy = cli("call", shop, "slow", "seconds=0.1", "--era", "legacy")
    assert legacy.err == "info: the second step\n"


def test_time_is_limited(cli: CommandLine, shop: str) -> None:
    outcome = cli("call", shop, "slow", "seconds=300", "--timeout", "3")
    assert outcome.status == 1
    told = "tool 'slow': no answer within 3 s (--timeout SECONDS waits longer)"
    assert told in outcome.err.splitlines()[-1]


def test_questions_are_not_asked_where_nobody_answers(cli: CommandLine, shop: str) -> None:
    outcome = cli("call", shop, "order", "book=Emma", "count=1")
    assert outcome.status == 1
    assert outcome.error == (
        "tool 'order' failed: This needs a client with the capability elicitation.form, which it "
        "has not declared (questions are asked on a terminal only: do not redirect stdin or stderr)"
    )
    legacy = cli("call", shop, "order", "book=Emma", "count=1", "--era", "legacy")
    assert legacy.error == outcome.error


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ordr"], "the server has no tool 'ordr'; did you mean 'order'?"),
        (["xyz"], "the server has no tool 'xyz'; it has: order, pay"),
        (["order", "book=Emma"], "tool 'order': Missing required argument 'count' (integer)"),
        (["order", "book=Emma", "count=x"], "tool 'order': Argument 'count' must be an integer"),
    ],
)
def test_calls_that_cannot_be(cli: CommandLine, shop: str, words: list[str], told: str) -> None:
    outcome = cli("call", shop, *words)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.error.startswith(told)


def test_resources(cli: CommandLine, shop: str) -> None:
    rows = [line.split() for line in cli("resources", shop).out.splitlines()]
    assert rows[0][:2] == ["URI", "Type"]
    assert rows[1][:3] == ["shop://stock", "application/json", "stock:"]
    assert rows[3][:2] == ["shop://books/{title}", "book:"]
    told = cli("resources", shop, "--json").json
    assert [each["uri"] for each in told["resources"]] == ["shop://stock", "shop://logo"]
    assert [each["uriTemplate"] for each in told["resourceTemplates"]] == ["shop://books/{title}"]


def test_reading(cli: CommandLine, shop: str) -> None:
    assert cli("read", shop, "shop://stock").out == '{"Emma":3}'
    assert cli("read", shop, "shop://stock", "--json").json == {
        "contents": [{"uri": "shop://stock", "mimeType": "application/json", "text": '{"Emma":3}'}]
    }
    outcome = cli("read", shop, "shop://nothing")
    assert outcome.status == 1
    assert outcome.error.startswith("there is no resource shop://nothing")


def test_bytes_go_to_a_pipe_as_they_are(
    shop: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(["read", shop, "shop://logo"]) == 0
    assert capsysbinary.readouterr() == (b"GIF89a\x00\xff", b"")


def test_prompts(cli: CommandLine, shop: str) -> None:
    rows = [line.split() for line in cli("prompts", shop).out.splitlines()]
    assert rows[1] == ["review", "book,", "tone?", "Ask", "for", "a", "review."]
    assert cli("prompts", shop, "--json").json["prompts"][0]["name"] == "review"
    assert cli("prompt", shop, "review", "book=Emma").out == (
        "user:\nWrite a kind review of Emma.\n"
    )
    told = cli("prompt", shop, "review", "book=Emma", "tone=3", "--json").json
    assert told["messages"][0]["content"]["text"] == "Write a 3 review of Emma."
    outcome = cli("prompt", shop, "review")
    assert outcome.error == "prompt 'review' needs book; it takes: book, tone?"
    assert cli("prompt", shop, "revue").error.endswith("did you mean 'review'?")


def test_a_server_that_offers_nothing(cli: CommandLine) -> None:
    with served(Registry("empty")) as url:
        for command in ("tools", "resources", "prompts"):
            outcome = cli(command, url)
            assert (outcome.status, outcome.out) == (0, "")
            assert outcome.err == f"The server offers no {command}.\n"
            assert cli(command, url, "--json").json[command] == []
        assert cli("call", url, "x").error == "the server has no tool 'x': it has none at all"
        assert cli("read", url, "note://x").error == "the server offers no resources"


def test_any_command_after_the_dashes(cli: CommandLine) -> None:
    assert [
        each["name"] for each in cli("tools", "--json", "--", *faulty("none")).json["tools"]
    ] == [
        "echo",
        "second",
    ]
    outcome = cli("call", "echo", "--", *faulty("takes-any-tool"))
    assert (outcome.status, outcome.out) == (0, "")


@pytest.mark.long
def test_the_environment_of_the_server(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_INHERITED", "from the shell")
    script = "call variable name=SHOP_INHERITED\ncall variable name=SHOP_GIVEN\n"
    outcome = cli("inspect", SHOP, "--env", "SHOP_GIVEN=a=b", stdin=script)
    assert outcome.out == "from the shell\na=b\n"


def test_a_server_that_writes_noise_is_reported(cli: CommandLine) -> None:
    outcome = cli("tools", "--", *faulty("noise"))
    assert "(16 bytes): Server is ready!\n" in outcome.err
    assert outcome.status == 0
    assert "trio-mcp: The server wrote a line that is not a message" in outcome.err


def test_values_that_are_no_objects_are_passed_over(cli: CommandLine) -> None:
    server = ("--", *faulty("odd-values"))
    assert cli("prompt", "p", *server).out == "user:\nHello.\n"
    assert (
        cli("read", "odd://b", *server).error
        == "there is no resource odd://b; did you mean odd://a?"
    )
    session = cli("inspect", *server, stdin="list\nprompt p\n")
    assert session.status == 0
    assert "2 tools, 1 resource, 1 prompt. Type help" in session.err
    assert session.out.endswith("user:\nHello.\n")


def test_stderr_of_the_server_on_request(cli: CommandLine) -> None:
    outcome = cli("tools", "--verbose", "--", *faulty("crash"))
    assert outcome.status == 1
    assert "Traceback" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("trio-mcp: the server exited with status 1")
    assert "Traceback" not in cli("tools", "--", *faulty("crash")).err


def test_why_a_result_cannot_be_sent_is_shown(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(ODD)
    outcome = cli("call", str(tmp_path / "odd.py"), "odd")
    assert outcome.status == 1
    assert "its result cannot be sent: a value of type object cannot be turned" in outcome.err
    assert outcome.err.endswith("Invalid handler result type: object (tool odd) (-32603)\n")


ODD = """
from trio_mcp import Registry

mcp = Registry("odd")


@mcp.tool
def odd():
    return object()
"""


def test_a_url_where_nothing_is(cli: CommandLine, shop: str) -> None:
    for url, told in (
        (shop.replace("/mcp", "/else"), "There is nothing here; the MCP endpoint is /mcp"),
        ("http://127.0.0.1:1/mcp", "cannot reach http://127.0.0.1:1: Connection refused"),
    ):
        outcome = cli("tools", url)
        assert (outcome.status, outcome.out) == (1, "")
        assert told in outcome.error


@pytest.mark.long
async def test_nobody_reads_the_results(shop: str) -> None:
    """`trio-mcp tools … | head -0`: no complaint."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = await trio.run_process(
            [*COMMAND, "tools", shop],
            env=ENVIRONMENT,
            stdout=writing,
            capture_stderr=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://", "the URL has no host; it should look like https://example.com/mcp"),
        (
            "http://127.0.0.1:99999/mcp",
            "the URL has port 99999; the port of a server is from 1 to 65535",
        ),
    ],
)
def test_a_url_that_leads_nowhere(cli: CommandLine, url: str, told: str) -> None:
    outcome = cli("tools", url)
    assert (outcome.status, outcome.out, outcome.error) == (2, "", told)


# -- the target in the environment ----------------------------------------------------------------


@pytest.mark.long
@pytest.mark.requirement("E10")
def test_without_a_target_that_of_the_environment_is_meant(
    cli: CommandLine, shop: str, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("tools").status == 2
    monkeypatch.setenv("MCP_SERVER_URL", shop)
    assert "order" in cli("tools").out
    assert cli("tools", "order", "--json").json["tools"][0]["name"] == "order"
    arguments = ["text=x", "number=2"]
    expected = cli("call", shop, "types", *arguments)
    assert expected.status == 0
    assert cli("call", "types", *arguments).out == expected.out
    assert cli("call", "--timeout", "9", "types", *arguments).out == expected.out
    assert cli("doctor", "--json").status == cli("doctor", shop, "--json").status
    monkeypatch.setenv("MCP_SERVER_URL", shlex.join([*COMMAND, "serve", SHOP]))
    assert cli("call", "types", *arguments).out == expected.out


@pytest.mark.requirement("E10")
@pytest.mark.parametrize("text", ["notaurl", "ftp://x"])
def test_an_environment_without_a_url(
    text: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_SERVER_URL", text)
    for words in (["tools"], ["call", "add", "a=1"], ["login"]):
        outcome = cli(*words)
        assert outcome.status == 1
        assert outcome.error == (
            "the variable MCP_SERVER_URL has neither a URL, which begins with http:// or https://, "
            "nor a command, with its arguments as in a shell"
        )
    assert "no file missing.py" in cli("tools", "missing.py").error, "it is not meant"


@pytest.mark.long
@pytest.mark.requirement("E10")
def test_a_target_that_is_named_counts_more_than_the_environment(
    cli: CommandLine, shop: str, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCP_SERVER_URL", "http://127.0.0.1:1/mcp")
    assert "order" in cli("tools", shop).out
    assert cli("tools", "--", *COMMAND, "serve", SHOP).status == 0
    assert "there is no file missing.py" in cli("call", "missing.py", "order").err
    assert cli().status == 0, "the overview"
    assert "TARGET" in cli("tools", "--help").out
    assert "there is no module 'missing'" in cli("serve", "missing").err
