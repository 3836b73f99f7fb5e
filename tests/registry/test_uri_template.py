"""URI templates: which URIs match, with which values, and which templates are refused."""

import sys

import pytest

from trio_mcp.registry import uri_search, uri_template
from trio_mcp.registry.uri_template import UriTemplate


def match(template, uri):
    return UriTemplate.parse(template).match(uri)


# -- what matches ------------------------------------------------------------------------------

MATCHES = [
    # Simple values: no reserved characters.
    ("note://{id}", "note://7", {"id": "7"}),
    ("note://{id}", "note://a-b.c_d~e", {"id": "a-b.c_d~e"}),
    ("note://{id}", "note://", None),
    ("note://{id}", "note://a/b", None),
    ("note://{id}", "note://a/", None),
    ("note://{id}", "note://a?b", None),
    ("note://{id}", "note://a#b", None),
    ("note://{id}", "note://a:b", None),
    ("note://{id}", "note://a@b", None),
    ("note://{id}", "note://a,b", None),
    ("note://{id}", "note://a+b", None),
    ("note://{id}", "note:///7", None),
    ("note://{id}", "notes://7", None),
    ("note://{id}", "note:/7", None),
    ("note://{id}", "7", None),
    ("note://{id}", "", None),
    ("{id}", "", None),
    ("{id}", "x", {"id": "x"}),
    ("{a}/{b}", "x/y", {"a": "x", "b": "y"}),
    ("{a}/{b}", "x/y/z", None),
    ("{a}/{b}", "x/", None),
    ("{a}/{b}", "/y", None),
    ("{a}/x/{b}", "1/x/2", {"a": "1", "b": "2"}),
    ("{a}/x/{b}", "1/y/2", None),
    ("{a}/x", "1/x", {"a": "1"}),
    ("{a}/x", "1/x/", None),
    ("{a,b}", "x,y", {"a": "x", "b": "y"}),
    ("{a,b}", "x", None),
    ("{a,b}", "x,y,z", None),
    ("v{major,minor}", "v1,2", {"major": "1", "minor": "2"}),
    # Several possibilities: the later value is the shorter one.
    ("{name}.{suffix}", "a.tar.gz", {"name": "a.tar", "suffix": "gz"}),
    ("{a}-{b}-{c}", "1-2-3-4", {"a": "1-2", "b": "3", "c": "4"}),
    ("{a}--{b}", "x---y", {"a": "x-", "b": "y"}),
    ("{a}aa{b}", "aaaaaa", {"a": "aaa", "b": "a"}),
    # Values decode; escapes are never cut.
    ("note://{id}", "note://a%20b", {"id": "a b"}),
    ("note://{id}", "note://a%2Fb", {"id": "a/b"}),
    ("note://{id}", "note://a%2fb", {"id": "a/b"}),
    ("note://{id}", "note://..%2F..%2Fetc", {"id": "../../etc"}),
    ("note://{id}", "note://%252F", {"id": "%2F"}),
    ("note://{id}", "note://%25", {"id": "%"}),
    ("note://{id}", "note://%C3%A9", {"id": "é"}),
    ("note://{id}", "note://%c3%a9", {"id": "é"}),
    ("note://{id}", "note://%F0%9F%90%9F", {"id": "🐟"}),
    ("note://{id}", "note://%41", {"id": "A"}),
    ("note://{id}", "note://%01", {"id": "\x01"}),
    ("{a}20{b}", "x%2020y", {"a": "x ", "b": "y"}),
    ("{a}20{b}", "x%20y", None),
    ("{a}0{b}", "a0%200", {"a": "a", "b": " 0"}),
    ("{a}2{b}", "x%20%20", None),
    # Reserved values.
    ("file:///{+path}", "file:///a/b/c.txt", {"path": "a/b/c.txt"}),
    ("file:///{+path}", "file:////etc/passwd", {"path": "/etc/passwd"}),
    ("file:///{+path}", "file:///../x", {"path": "../x"}),
    ("file:///{+path}", "file:///a%20b/c%2Fd", {"path": "a b/c/d"}),
    ("file:///{+path}", "file:///", None),
    ("fetch:{+url}", "fetch:http://x/y?a=1&b=[2]#c", {"url": "http://x/y?a=1&b=[2]#c"}),
    ("{+dir}/{name}", "a/b/c", {"dir": "a/b", "name": "c"}),
    ("{+dir}/{name}", "c", None),
    ("{owner}/{+path}", "o/a/b", {"owner": "o", "path": "a/b"}),
    ("{+a}/-/{+b}", "x/-/y/-/z", {"a": "x/-/y", "b": "z"}),
    ("{+a,b}", "x/y,z", {"a": "x/y", "b": "z"}),
    ("{+path}/raw", "a/raw/raw", {"path": "a/raw"}),
    # Reserved values leave alone what the template has for later.
    ("{+path}{?q}", "a/b?q=1", {"path": "a/b", "q": "1"}),
    ("{+path}{?q}", "a/b", {"path": "a/b"}),
    ("{+path}{?q}", "a?x?q=1", None),
    ("{+path}{?q}", "a?z=1", None),
    ("{+path}?v={v}", "a?v=1", {"path": "a", "v": "1"}),
    ("{+path}?v={v}", "a?b?v=1", None),
    ("{+path}{#part}", "a#b#c", {"path": "a", "part": "b#c"}),
    ("{+path}{;v}", "a/b;v=1", {"path": "a/b", "v": "1"}),
    ("x?u={+url}{&q}", "x?u=h/p&q=1", {"url": "h/p", "q": "1"}),
    # Suffixes.
    ("{+path}{.ext}", "a/b.txt", {"path": "a/b", "ext": "txt"}),
    ("{+path}{.ext}", "a.b/c", {"path": "a.b/c"}),
    ("{+path}{.ext}", ".profile", {"path": ".profile"}),
    ("x{.ext}", "x.tar.gz", {"ext": "tar.gz"}),
    ("x{.a,b}", "x.tar.gz", {"a": "tar", "b": "gz"}),
    ("x{.ext}", "x", {}),
    ("x{.ext}", "x.", {"ext": ""}),
    ("x{.ext}", "xtxt", None),
    # Segments.
    ("users{/id}", "users/7", {"id": "7"}),
    ("users{/id}", "users", {}),
    ("users{/id}", "users/", {"id": ""}),
    ("users{/id}", "users/7/8", None),
    ("users{/id}", "users7", None),
    ("users{/id}/mail", "users/7/mail", {"id": "7"}),
    ("users{/id}/mail", "users/mail", {}),
    ("users{/a,b}", "users/1", {"a": "1"}),
    ("users{/a,b}", "users/1/2", {"a": "1", "b": "2"}),
    ("users{/a,b}", "users/1/2/3", None),
    ("{/a,b}/{+c}", "/1/2/3/4", {"a": "1", "b": "2", "c": "3/4"}),
    ("{/a}{.b}", "/x.y", {"a": "x", "b": "y"}),
    # Lists of segments.
    ("tree{/path*}", "tree/a/b/c", {"path": ["a", "b", "c"]}),
    ("tree{/path*}", "tree/a", {"path": ["a"]}),
    ("tree{/path*}", "tree/a%2Fb/c", {"path": ["a/b", "c"]}),
    ("tree{/path*}", "tree/a//b", {"path": ["a", "", "b"]}),
    ("tree{/path*}", "tree/", {"path": [""]}),
    ("tree{/path*}", "tree", {}),
    ("tree{/path*}", "trees", None),
    ("tree{/path*}", "tree/a:b", None),
    ("tree{/path*}/edit", "tree/a/edit/edit", {"path": ["a", "edit"]}),
    ("tree{/path*}/{name}", "tree/a/b/c", {"path": ["a", "b"], "name": "c"}),
    ("{/owner,path*}", "/o/a/b", {"owner": "o", "path": ["a", "b"]}),
    ("{/owner,path*}", "/o", {"owner": "o"}),
    # Parameters.
    ("x{;a,b}", "x;a=1;b=2", {"a": "1", "b": "2"}),
    ("x{;a,b}", "x;b=2;a=1", {"a": "1", "b": "2"}),
    ("x{;a}", "x;a", {"a": ""}),
    ("x{;a}", "x;a=", {"a": ""}),
    ("x{;a}", "x", {}),
    ("x{;a}", "x;b=1", None),
    ("x{;a}", "x;", None),
    ("x{;a}", "x;a=1;a=2", None),
    ("x{;a*}", "x;a=1;a=2", {"a": ["1", "2"]}),
    ("x{;a}/y", "x;a=1/y", {"a": "1"}),
    # Queries.
    ("x{?q}", "x?q=1", {"q": "1"}),
    ("x{?q}", "x?q=", {"q": ""}),
    ("x{?q}", "x?q", {"q": ""}),
    ("x{?q}", "x", {}),
    ("x{?q}", "x?", None),
    ("x{?q}", "x?r=1", None),
    ("x{?q}", "x?q=1&", None),
    ("x{?q}", "x?q=1&r=2", None),
    ("x{?q}", "x?q=1&q=2", None),
    ("x{?q}", "x?Q=1", None),
    ("x{?q}", "x?q=1#f", None),
    ("x{?q}", "x&q=1", None),
    ("x{?q,r}", "x?q=1&r=2", {"q": "1", "r": "2"}),
    ("x{?q,r}", "x?r=2&q=1", {"q": "1", "r": "2"}),
    ("x{?q,r}", "x?r=2", {"r": "2"}),
    ("x{?q}", "x?q=a%26b%3Dc", {"q": "a&b=c"}),
    ("x{?q}", "x?q=2024-01-01T10:00/a?b=c,d", {"q": "2024-01-01T10:00/a?b=c,d"}),
    ("x{?q}", "x?q=a+b", {"q": "a+b"}),
    ("x{?tag*}", "x?tag=1&tag=2", {"tag": ["1", "2"]}),
    ("x{?tag*}", "x?tag=1", {"tag": ["1"]}),
    ("x{?q,tag*}", "x?tag=1&q=0&tag=2", {"q": "0", "tag": ["1", "2"]}),
    ("x?f=1{&q,r}", "x?f=1&r=2&q=1", {"q": "1", "r": "2"}),
    ("x?f=1{&q}", "x?f=1", {}),
    ("x?f=1{&q}", "x?q=1&f=1", None),
    ("x?f={f}{&tag*}", "x?f=1&tag=2&tag=3", {"f": "1", "tag": ["2", "3"]}),
    ("x{?q}{#part}", "x?q=1#p", {"q": "1", "part": "p"}),
    ("x{?q}#p{part}", "x?q=1#p2", {"q": "1", "part": "2"}),
    # Fragments.
    ("x{#part}", "x#a/b?c", {"part": "a/b?c"}),
    ("x{#part}", "x", {}),
    ("x{#part}", "x#", {"part": ""}),
    ("x{#a,b}", "x#1,2", {"a": "1", "b": "2"}),
    # Text outside of variables.
    ("NOTE://{id}", "note://A", {"id": "A"}),
    ("note://{id}", "NoTe://A", {"id": "A"}),
    ("note://Host/{id}", "note://host/1", None),
    ("a%2fb/{id}", "a%2Fb/1", {"id": "1"}),
    ("a%2Fb/{id}", "a%2fb/1", {"id": "1"}),
    ("a%2Fb/{id}", "a/b/1", None),
    ("a%41/{id}", "aA/1", None),
    ("{a}%2F{b}", "x%2fy", {"a": "x", "b": "y"}),
    ("{a}%2F{b}", "x%2Fy%2Fz", {"a": "x/y", "b": "z"}),
    ("{scheme}:x", "HTTP:x", {"scheme": "HTTP"}),
    ("a.b/[{id}]", "axb/[1]", None),
    ("a.b/[{id}]", "a.b/[1]", {"id": "1"}),
    # Letters beyond ASCII stand for their escapes.
    ("café/{id}", "café/1", {"id": "1"}),
    ("café/{id}", "caf%C3%A9/1", {"id": "1"}),
    ("caf%c3%a9/{id}", "café/1", {"id": "1"}),
    ("café/{id}", "cafe\u0301/1", None),
    ("note://{id}", "note://日本", {"id": "日本"}),
    ("{a}é{b}", "xéy", {"a": "x", "b": "y"}),
    ("{user.name}{?user.mail}", "x?user.mail=y", {"user.name": "x", "user.mail": "y"}),
]


@pytest.mark.parametrize(("template", "uri", "values"), MATCHES)
def test_a_uri_and_its_values(template, uri, values):
    assert match(template, uri) == values


NO_URIS = [
    "note://%",
    "note://%2",
    "note://%zz",
    "note://%2g",
    "note://%%20",
    "note://%\uff12\uff10",
    "note://%u0041",
    "note://%00",
    "note://a%00b",
    "note://a\0b",
    "note://%FF",
    "note://%C3",
    "note://%C3/%A9",
    "note://%A9",
    "note://%C0%AF",
    "note://%ED%A0%80",
    "note://%F5%80%80%80",
    "note://\ud800",
    "note://a b",
    "note://a\tb",
    "note://a\n",
    "\nnote://a",
    " note://a",
    "note://a\x7f",
    'note://"',
    "note://<a>",
    "note://{id}",
    "note://a\\b",
    "note://a|b",
    "note://a^b",
    "note://`",
]


@pytest.mark.parametrize("uri", NO_URIS)
@pytest.mark.parametrize("template", ["note://{id}", "{+everything}", "{+a}{?b}{#c}"])
def test_what_is_no_uri_never_matches(template, uri):
    assert match(template, uri) is None


def test_the_length_is_bounded():
    template = UriTemplate.parse("note://{+id}")
    longest = "note://" + "x" * (8192 - 7)
    assert template.match(longest) == {"id": "x" * (8192 - 7)}
    assert template.match(longest + "x") is None
    assert template.match("note://" + "é" * 1364) == {"id": "é" * 1364}
    assert template.match("note://" + "é" * 1365) is None  # 6 bytes each
    assert template.match("x" * 10_000_000) is None


# -- templates ---------------------------------------------------------------------------------


def test_a_template_is_a_value():
    template = UriTemplate.parse("repo://{owner}/{name}{/path*}{?ref}")
    assert template.text == "repo://{owner}/{name}{/path*}{?ref}"
    assert template.variables == ("owner", "name", "path", "ref")
    assert template == UriTemplate.parse(template.text)
    assert hash(template) == hash(UriTemplate.parse(template.text))
    assert template != UriTemplate.parse("repo://{owner}/{name}")
    assert "owner" in repr(template)
    with pytest.raises(AttributeError):
        template.text = "x"


def test_values_come_in_the_order_of_the_template():
    assert list(match("{a}/{b}{?c,d}", "1/2?d=4&c=3")) == ["a", "b", "c", "d"]


REFUSED = [
    ("", None, ["no variables", "{name}"]),
    ("note://all", None, ["no variables"]),
    ("{id", 1, ["{", "%7B"]),
    ("note://{id", 8, ["{"]),
    ("note://id}", 10, ["}", "%7D"]),
    ("{{id}}", 1, ["{"]),
    ("{a{b}}", 1, ["{"]),
    ("x{}", 2, ["{name}"]),
    ("{a}/{}", 5, ["{name}"]),
    ("{+}", 1, ["''", "no name"]),
    ("{?}", 1, ["no name"]),
    ("{a,}", 1, ["no name"]),
    ("{a,,b}", 1, ["no name"]),
    ("{*}", 1, ["no name"]),
    ("{a-b}", 1, ["'a-b'", "digits and _"]),
    ("{a b}", 1, ["'a b'"]),
    ("{ a}", 1, ["' a'"]),
    ("{a, b}", 1, ["' b'"]),
    ("{é}", 1, ["'é'"]),
    ("{\u0661}", 1, ["no name"]),
    ("{%41}", 1, ["'%41'"]),
    ("{a.}", 1, ["'a.'"]),
    ("{a..b}", 1, ["'a..b'"]),
    ("{a\n}", 1, ["no name"]),
    ("{?a*b}", 1, ["'a*b'"]),
    ("{?a**}", 1, ["'a*'"]),
    ("{++a}", 1, ["'+a'"]),
    ("{=a}", 1, ["'='", "leave it out"]),
    ("{!a}", 1, ["'!'"]),
    ("{@a}", 1, ["'@'"]),
    ("{|a}", 1, ["'|'"]),
    ("{,a}", 1, ["','"]),
    ("{a:3}", 1, ["{a:3}", "write {a}"]),
    ("x{/a:3}", 2, ["write {/a}"]),
    ("{?a,b:10}", 1, ["write {?b}"]),
    ("{a:}", 1, ["write {a}"]),
    ("{a,a}", 1, ["a occurs twice", "own name"]),
    ("{a}/{a}", 5, ["a occurs twice"]),
    ("{a}{?b,a}", 4, ["a occurs twice"]),
    ("{a*}", 1, ["{/a*}", "{?a*}"]),
    ("{+a*}", 1, ["{/a*}"]),
    ("x{#a*}", 2, ["{/a*}"]),
    ("x{.a*}", 2, ["{/a*}"]),
    ("{/a*,b}", 1, ["put it last"]),
    ("a{x}{y}", 5, ["x ends and y begins", "put some text between"]),
    ("{x}{+y}", 4, ["x ends and y begins"]),
    ("{+x}{y}", 5, ["x ends and y begins"]),
    ("{a,b}{c,d}", 6, ["b ends and c begins"]),
    ("{/x}{y}", 5, ["x ends and y begins"]),
    ("{.x}{y}", 5, ["x ends and y begins"]),
    ("{/x}{/y}", 5, ["x ends and y begins", "{/a,b}"]),
    ("{.x}{.y}", 5, ["x ends and y begins", "{.a,b}"]),
    ("{;x}{;y}", 5, ["x ends and y begins", "{;a,b}"]),
    ("{/x,y}{.z}{/a}", 11, ["y ends and a begins", "{/a,b}"]),
    ("{;x}/a{;y}", 7, ["one place", "put all its variables there"]),
    ("{+x}{/y*}", 5, ["x ends and y begins", "put some text between"]),
    ("{+x}{.y}{/z,a*}", 9, ["x ends and z begins"]),
    ("{?x}{?y}", 5, ["{?a,b}"]),
    ("{?x}{&y}", 5, ["all variables of the query into it"]),
    ("{?x}/a", 5, ["put other text and variables before it"]),
    ("{?x}{/y}", 5, ["before it"]),
    ("?a=1{&x}&b=2", 9, ["{&…}", "before it"]),
    ("a?b=1{?x}", 6, ["{&…}"]),
    ("{+a}?b={c}{?d}", 11, ["{&…}"]),
    ("{#x}a", 5, ["put it last"]),
    ("{#x}{?y}", 5, ["put it last"]),
    ("{;x}a", 5, ["put a / between"]),
    ("{;x}{.y}", 5, ["put a / between"]),
    ("{;x}{/y}.json", 9, ["put a / between"]),
    ("a b{x}", 2, ["' '", "percent-encode"]),
    ("{x}a\nb", 5, ["'\\n'"]),
    ("a<{x}>", 2, ["'<'"]),
    ("a%zz{x}", 2, ["'%'"]),
    ("a%4", 2, ["'%'"]),
    ("{x}%", 4, ["'%'"]),
    ("{x}/%ff", 4, ["UTF-8"]),
    ("{x}/%00", 4, ["NUL"]),
    ("%C3{x}%A9", 1, ["UTF-8"]),
    ("\ud800{x}", 1, ["UTF-8"]),
    ("{x}" + "a" * 8190, None, ["8192", "8193"]),
]


@pytest.mark.parametrize(("template", "at", "words"), REFUSED)
def test_templates_that_are_refused(template, at, words):
    with pytest.raises(ValueError, match="URI template") as caught:
        UriTemplate.parse(template)
    message = str(caught.value)
    for word in words:
        assert word in message
    if at is not None:
        assert f"at character {at}:" in message
    assert len(message) < 300


def test_the_operators_that_may_follow_one_another():
    template = UriTemplate.parse("x://{a}{/b,c}{.d}{;e,f}/-/{+g}{?h,i*}{#j}")
    assert template.match("x://1/2/3.4;e=5;f=6/-/7/8?h=9&i=10&i=11#12") == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "4",
        "e": "5",
        "f": "6",
        "g": "7/8",
        "h": "9",
        "i": ["10", "11"],
        "j": "12",
    }
    assert template.match("x://1/-/7") == {"a": "1", "g": "7"}


# -- time --------------------------------------------------------------------------------------

HARD = [
    ("-".join(f"{{v{number}}}" for number in range(40)), "-"),
    ("-".join(f"{{v{number}}}" for number in range(40)) + "!", "-"),
    ("-".join(f"{{v{number}}}" for number in range(40)), "a-"),
    ("/".join(f"{{+v{number}}}" for number in range(40)) + "!", "/"),
    ("/".join(f"{{+v{number}}}" for number in range(40)), "a/"),
    ("aa".join(f"{{+v{number}}}" for number in range(40)) + "!", "a"),
    ("aaaaaaaaaaaaaaaab".join(f"{{v{number}}}" for number in range(8)), "a"),
    ("%20".join(f"{{v{number}}}" for number in range(40)), "%20"),
    ("{/" + ",".join(f"v{number}" for number in range(40)) + "}/{+x}!", "/"),
    ("{." + ",".join(f"v{number}" for number in range(40)) + "}!", "."),
    ("{+a}{.b,c,d}{;e,f}{?g,h}{#i}", "a.;?&#"),
    ("{#" + ",".join(f"v{number}" for number in range(40)) + "}", ","),
    ("{/a*}/x{/b*}/x{/c*}/!", "/x"),
]


@pytest.mark.parametrize(("template", "repeated"), HARD)
def test_no_uri_takes_more_steps_because_it_is_longer(template, repeated):
    """Steps grow with the template alone; one step is linear in the length of the URI."""
    parsed = UriTemplate.parse(template)
    uris = [(repeated * size)[:size] for size in (600, 8190)]  # 3 divides both: whole escapes
    if template.startswith("{#"):
        uris = ["#" + uri for uri in uris]
    short, long = (lines_run(parsed.match, uri) for uri in uris)
    assert 0 < long <= short


def lines_run(function, *args):
    """Lines of the modules in question that are run in a call."""
    lines = 0
    files = {uri_search.__file__, uri_template.__file__}

    def trace(frame, event, _argument):
        nonlocal lines
        if frame.f_code.co_filename not in files:
            return None
        lines += event == "line"
        return None if frame.f_code.co_name in PER_CHARACTER else trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*args)
    finally:
        sys.settrace(before)
    return lines


PER_CHARACTER = ("<lambda>", "<genexpr>")
"""They are called once for each escape or letter, and have no loops."""


def test_a_query_of_many_pairs():
    template = UriTemplate.parse("x{?a,tag*}")
    uri = "x?" + "&".join(["tag=1"] * 1300)
    assert template.match(uri) == {"tag": ["1"] * 1300}
    assert template.match(uri + "&a=0") == {"a": "0", "tag": ["1"] * 1300}
    assert template.match(uri + "&b=0") is None
    assert template.match("x?" + "&" * 8000) is None
