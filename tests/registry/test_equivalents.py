"""Names that other libraries have: the error says what to write here."""

from typing import Any

import pytest

from trio_mcp import Context, Registry, connect
from trio_mcp.aio import Registry as LoopRegistry
from trio_mcp.aio import connect as connect_in_loop

pytestmark = pytest.mark.requirement("L2")


def test_what_others_have_is_refused_with_what_to_write() -> None:
    registry = Registry("shop")
    with pytest.raises(AttributeError, match=r"no attribute 'run'; here it is: trio.run\(serve, "):
        registry.run()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="report_progress'; here it is: context"):
        Context(tool="order").report_progress  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(TypeError, match="'exclude_args'; here it is: Annotated"):
        registry.tool(exclude_args=["user"])(lambda user: user)  # type: ignore[call-overload]


@pytest.mark.parametrize("kind", [Registry, LoopRegistry])
def test_options_that_belong_elsewhere_are_refused_with_their_place(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"'port'; here it is: serve_http\(registry, port="):
        kind("shop", port=8000)
    with pytest.raises(TypeError, match=r"'auth'; here it is: serve_http\(registry, auth="):
        kind("shop", auth=object())
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'colour'$"):
        kind("shop", colour="red")
    with pytest.raises(TypeError, match="'readOnlyHint'; here it is: annotations="):
        kind("shop").tool(readOnlyHint=True)(lambda: 1)
    with pytest.raises(TypeError, match="'descripton'; did you mean 'description'"):
        kind("shop").tool(descripton="Say what it costs.")(lambda: 1)
    with pytest.raises(TypeError, match="'versoin'; did you mean 'version'"):
        kind("shop", versoin="1.0")


@pytest.mark.parametrize("call", [connect, connect_in_loop])
def test_options_of_connect_are_refused_with_where_they_are(call: Any) -> None:
    with pytest.raises(TypeError, match=r"'headers'; here it is: http=HttpOptions\(headers="):
        call("http://127.0.0.1/mcp", headers={"a": "b"})
    with pytest.raises(TypeError, match="'timeout'; here it is: tool_timeout="):
        call(["server"], timeout=5)


def test_what_there_is_nowhere_is_just_missing() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'explode'$"):
        Registry("shop").explode()  # type: ignore[attr-defined]
    assert not hasattr(Registry("shop"), "__array__")
