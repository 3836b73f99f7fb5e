import docstring_parser
import pytest

from trio_mcp.schema.docstrings import parse_docstring

pytestmark = pytest.mark.requirement("C1")


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_nothing_said(text: str | None) -> None:
    docs = parse_docstring(text)
    assert docs.description is None
    assert docs.parameters == {}


def test_a_plain_docstring_is_taken_as_it_stands() -> None:
    docs = parse_docstring("""Add two numbers.

        The result is exact:
        it is never rounded.
    """)
    assert docs.description == "Add two numbers.\n\nThe result is exact:\nit is never rounded."


GOOGLE = """Add two numbers.

    They may be of any size.

    Args:
        a: The first
            of both.
        b (int): The second.
        **rest: Whatever else.

    Returns:
        Their sum.

    Raises:
        ValueError: Never.
    """

NUMPY = """Add two numbers.

    They may be of any size.

    Parameters
    ----------
    a : int
        The first
        of both.
    b : int
        The second.
    **rest
        Whatever else.

    Returns
    -------
    int
        Their sum.
    """

SPHINX = """Add two numbers.

    They may be of any size.

    :param a: The first
        of both.
    :param int b: The second.
    :param rest: Whatever else.
    :returns: Their sum.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_sections_are_told_from_the_description(text: str) -> None:
    docs = parse_docstring(text)
    assert docs.description == "Add two numbers.\n\nThey may be of any size."
    assert docs.parameters == {
        "a": "The first\nof both.",
        "b": "The second.",
        "rest": "Whatever else.",
    }


def test_a_docstring_of_sections_only() -> None:
    docs = parse_docstring("\n    Args:\n        a: The first.\n    ")
    assert docs.description is None
    assert docs.parameters == {"a": "The first."}


def test_what_cannot_be_parsed_is_taken_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Do it.\n\n:param"
    assert parse_docstring(text).description == text

    def fail(_: str) -> None:
        raise docstring_parser.ParseError

    monkeypatch.setattr(docstring_parser, "parse", fail)
    text = "Do it.\n\nArgs:\n    a: One."
    assert parse_docstring(text).description == text


def test_a_summary_that_runs_on() -> None:
    docs = parse_docstring("Add.\nAll of it.\n\nArgs:\n    a: One.\n")
    assert docs.description == "Add.\nAll of it."
