import pytest

from trio_mcp.schema import SchemaError
from trio_mcp.schema.patterns import compile_bounded, longest_text

pytestmark = pytest.mark.requirement("C3")

SEMVER = (
    r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$"
)
HTML_EMAIL = (
    r"^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
    r"(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$"
)


@pytest.mark.parametrize(
    ("pattern", "at_least"),
    [
        (r"^[a-z0-9]+(?:-[a-z0-9]+)*$", 10**6),
        (r"^[^@\s]+@[^@\s]+\.[^@\s]+$", 254),
        (SEMVER, 10**6),
        (HTML_EMAIL, 254),
        (r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", 10**6),
        (r"^(\d{1,3}\.){3}\d{1,3}$", 10**6),
        (r"^(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}$", 100),
        (r"^[a-z][a-z0-9-]{0,62}[a-z0-9]$", 10**6),
        (r"^\+?[1-9]\d{1,14}$", 10**6),
        (r"^(?=.*[A-Z])(?=.*\d).{8,}$", 10**5),
        (r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$", 10**6),
        (r"^https?://[^\s/$.?#].[^\s]*$", 10**6),
        (r"\S", 10**6),
        (r"", 10**6),
        (r"^.*$", 10**6),
        (r"(?s)\A.*\Z", 10**6),
        (r"^\w+(\s\w+)*$", 10**6),
        (r"^\w+(\W+\d)?$", 10**3),
        (r"[a-z]+@", 1000),
        (r"^(?i:abc)+$", 10**6),
        (r"(?i)^[a-z]+$", 10**6),
        (r"^(a|b)+$", 10**6),
        (r"^(?>a+)b$", 10**6),
        (r"^a++b$", 10**6),
        (r"^x{0}y$", 10**6),
        (r"^(?:|a)$", 10**6),
        (r"(?m)^a+$", 1000),
        (r"(^a+|^b+)$", 10**6),
        (r"(?:^a+|\Ab+)$", 10**6),
        (r"()a+$", 1000),
        (r"^[ab]+(?:bc)+$", 10**6),
        (r"^(?!)$", 10**6),
        (r"[^a]+?", 1000),
        (r"^(?:\d{4} ?){4}$", 10**5),
        (r"^((?!foo).)*$", 10**5),
        (r"^/(?:[^/]+/)*[^/]*$", 1000),
        (r"^(?:\b)*a$", 10**6),
    ],
)
def test_patterns_that_are_in_use_are_accepted(pattern: str, at_least: int) -> None:
    assert longest_text(pattern) >= at_least


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",
        r"(a*)*b",
        r"^(a|a)*$",
        r"^(ab|ab)*$",
        r"^(x(a?)?)*$",
        r"(a|aa)+$",
        r"^(\w+\s?)*$",
        r"^(\w|\d\d)+$",
        r"^([^a]|b)+$",
        r"(?i)^(a|Ab?b?)+$",
        r"(?i)^(a|Aa)+$",
        r"(.*)*x",
        r"([a-zA-Z]+)*",
        r"(a|a?)+",
        r"^(([a-z])+.)+[A-Z]([a-z])+$",
        r"(\w+)\1",
        r"(a)?(?(1)b|c)",
        r"(x+x+)+y",
        r"a?" * 30 + "a" * 30,
        r"(?:a?|b?)" * 40,
        r"(a?){30}a{30}",
        r"^(\d+|\d+\.\d+)*$",
        r"(.*a){25}",
        r"(a|b|ab)*c",
        r"^(\s*\w\s*)*$",
        r"\d*\d*\d*\d*\d*\d*x",
        r"(?:(?:a{1,50}){1,50}){1,50}",
        "a" * 500,
        r"(",
        r"[[a]]",
        r"a(?i)",
        r"a{99999999999}",
        "(?:" + "|".join(f"[a-z]{{1,3}}x{n}.*" for n in range(40)) + ")*",
    ],
)
def test_patterns_that_could_explode_are_refused(pattern: str) -> None:
    with pytest.raises(
        SchemaError, match=r"the pattern .* is (not accepted|no regular expression): "
    ):
        longest_text(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"[a-z]+@", "a"),
        (r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "a@" + "." * 5000),
        (r"^(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}$", "1"),
        (HTML_EMAIL, "a"),
        (SEMVER, "1.1.1-" + "1" * 5000),
        (r"\s+$", " "),
        (r"^\w+(\s\w+)*$", "a a"),
    ],
)
def test_the_longest_texts_are_matched_quickly(pattern: str, text: str) -> None:
    limit = min(longest_text(pattern), 10**5)
    text = (text * (limit // len(text) + 1))[: limit - 1] + "\n"
    assert compile_bounded(pattern)(text) in (True, False)


def test_texts_that_are_too_long_do_not_match() -> None:
    test = compile_bounded("a+$")
    limit = longest_text("a+$")
    assert test("a" * limit)
    assert not test("a" * (limit + 1))
    assert not test("b")
