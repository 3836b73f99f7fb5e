"""Names that other libraries have: the error says what to write here."""

import pytest

from trio_mcp import Context, Registry

pytestmark = pytest.mark.requirement("L2")


def test_what_others_have_is_refused_with_what_to_write() -> None:
    registry = Registry("shop")
    with pytest.raises(AttributeError, match=r"no attribute 'run'; here it is: trio.run\(serve, "):
        registry.run()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="report_progress'; here it is: context"):
        Context(tool="order").report_progress  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(TypeError, match="'exclude_args'; here it is: Annotated"):
        registry.tool(exclude_args=["user"])(lambda user: user)  # type: ignore[call-overload]


def test_what_there_is_nowhere_is_just_missing() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'explode'$"):
        Registry("shop").explode()  # type: ignore[attr-defined]
    assert not hasattr(Registry("shop"), "__array__")
