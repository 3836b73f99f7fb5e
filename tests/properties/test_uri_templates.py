"""URI templates read backwards, against a library that expands them."""

from itertools import count, islice
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from uritemplate import expand

from trio_mcp.registry.uri_template import UriTemplate

# -- templates and values ----------------------------------------------------------------------

OPTIONAL = {"/", "?"}
NAMED = {"?"}
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
RESERVED_LETTERS = st.sampled_from("ab0-._~/:@[]!$'()*+,= é\n日🐟")  # not what begins a later part


@st.composite
def templates(draw, literals):
    """Templates, most of which can be read backwards: literals and (operator, lists)."""
    parts = []
    names = map("v{}".format, count())
    for index in range(draw(st.integers(0, 3))):
        if index or draw(st.booleans()):
            parts.append(draw(literals))
        operator = draw(st.sampled_from(["", "", "+"]))
        parts.append((operator, dict.fromkeys(islice(names, draw(st.integers(1, 2))), False)))
    if draw(st.booleans()) or not parts:
        parts.append(draw(literals))
    for operator in ["/", "?"]:
        if draw(st.booleans()):
            some = draw(st.integers(1, 3))
            lists = {name: operator == "?" and draw(st.booleans()) for name in islice(names, some)}
            if operator == "/":
                lists[next(reversed(lists))] = draw(st.booleans())
            parts.append((operator, lists))
    return parts


def text_of(parts):
    return "".join(
        part
        if isinstance(part, str)
        else f"{{{part[0]}{','.join(name + '*' * is_list for name, is_list in part[1].items())}}}"
        for part in parts
    )


def parsed(parts):
    """The template, unless it is one of those that are refused."""
    try:
        return UriTemplate.parse(text_of(parts))
    except ValueError:
        assume(False)


@st.composite
def values_for(draw, parts, simple, reserved):
    """Values such as the parts can tell: not all of them for optional parts."""
    values = {}
    for part in parts:
        if isinstance(part, str):
            continue
        operator, lists = part
        letters = reserved if operator == "+" else simple
        names = list(lists)
        if operator in NAMED:
            names = [name for name in names if draw(st.booleans())]
        elif operator in OPTIONAL:
            names = names[: draw(st.integers(0, len(names)))]
        for name in names:
            value = st.text(letters, min_size=operator not in OPTIONAL, max_size=5)
            values[name] = draw(st.lists(value, min_size=1, max_size=3) if lists[name] else value)
    return values


# -- whatever a template makes -----------------------------------------------------------------


@given(st.data())
def test_what_a_template_makes_it_matches(data):
    """Even where several values make the same URI: those that are found make it again."""
    parts = data.draw(templates(st.text("ab.-/:;?&=#,@0é", min_size=1, max_size=4)))
    template = parsed(parts)
    values = data.draw(values_for(parts, LETTERS, RESERVED_LETTERS))
    uri = expand(template.text, values)
    found = template.match(uri)
    assume(found is not None or not holds_what_is_between(parts, values))
    assert found is not None
    assert unquote_to_bytes(expand(template.text, found)) == unquote_to_bytes(uri)


def holds_what_is_between(parts, values):
    """Whether a value makes, with what stands beside it, one more of a text between variables."""
    between = [part for part in parts if isinstance(part, str)] + [","]
    if len(values) < 2:
        return False
    uri = expand(text_of(parts), values)
    # Without the names of the variables, in which such a text may be as well.
    bare = "".join(part if isinstance(part, str) else "," * (len(part[1]) - 1) for part in parts)
    return any(uri.count(text) > bare.count(text) for text in map(quoted, between))


def quoted(text):
    return expand("{+text}", text=text)


@given(st.data())
def test_what_matches_is_made_by_the_template(data):
    parts = data.draw(templates(st.text("ab./", min_size=1, max_size=3)))
    template = parsed(parts)
    names = list(template.variables)
    piece = st.sampled_from([*"ab./-;?&#=,:", "%2F", "%c3%a9", "é", *(f"{n}=" for n in names)])
    uri = "".join(data.draw(st.lists(piece, max_size=12)))
    if data.draw(st.booleans()):  # something that is almost right
        made = expand(template.text, data.draw(values_for(parts, LETTERS, RESERVED_LETTERS)))
        at = data.draw(st.integers(0, len(made)))
        uri = made[:at] + uri + made[at + data.draw(st.integers(0, 2)) :]
    found = template.match(uri)
    if found is not None:
        assert pairs_in_order(expand(template.text, found)) == pairs_in_order(uri)


def pairs_in_order(uri):
    """What two ways of writing the same URI have in common: order and empty values apart."""
    data = unquote_to_bytes(uri)
    for separator in (b"#", b"?", b"&", b";"):
        data = data.replace(separator, b"\0")
    return sorted(each.removesuffix(b"=") for each in data.split(b"\0"))


# -- where there is only one way ---------------------------------------------------------------


@given(st.data())
def test_values_come_back(data):
    """No value holds what stands between values, and so nothing can be taken for it."""
    parts = data.draw(templates(st.text("XYZ", min_size=1, max_size=3)))
    template = parsed(parts)
    simple = st.characters(exclude_categories=["Cs"], exclude_characters="\0.XYZ")
    reserved = st.sampled_from("ab0-_~:@[]!$'()*+= é\n日🐟%")
    values = data.draw(values_for(parts, simple, reserved))
    assume(not any(escape_like(value) for value in values.values()))
    assume(all("/" not in part[0] for part in parts if isinstance(part, str)))
    assert template.match(expand(template.text, values)) == values


def escape_like(value):
    """Reserved expansion leaves an escape in a value alone, as if it were meant."""
    return isinstance(value, str) and "%" in value and unquote_to_bytes(value) != value.encode()


@pytest.mark.parametrize(
    ("template", "letters"),
    [
        ("note://{v}", None),
        ("note://{v}/x", None),
        ("x{?v}", None),
        ("x{/v}", None),
        ("file:///{+v}", "%"),
    ],
)
@given(st.data())
def test_any_value_comes_back(template, letters, data):
    """Whatever the letters: they are encoded, and decoded again."""
    exclude = "\0" + (letters or "")
    value = data.draw(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters=exclude), min_size=1)
    )
    assert UriTemplate.parse(template).match(expand(template, v=value)) == {"v": value}


@given(st.lists(st.text(LETTERS), min_size=1, max_size=5))
@example(["", ""])
@example(["a/b", "..", "%2F"])
def test_any_list_comes_back(values):
    for template in ["x{/v*}", "x{?v*}", "x{/v*}?y"]:
        assert UriTemplate.parse(template).match(expand(template, v=values)) == {"v": values}


# -- whatever comes ----------------------------------------------------------------------------


@given(st.text("{}+#./;?&*:,=|ab1_%é \n", max_size=30) | st.text(max_size=30))
def test_any_text_is_a_template_or_a_value_error(text):
    try:
        template = UriTemplate.parse(text)
    except ValueError:
        return
    assert template.variables
    assert template.match(text) is None  # braces stand in no URI


@given(st.text())
def test_any_text_matches_or_does_not(uri):
    for template in ["{x}", "{+x}", "{+a}/{b}{?c,d*}"]:
        found = UriTemplate.parse(template).match(uri)
        assert found is None or set(found) <= {"x", "a", "b", "c", "d", "e"}
