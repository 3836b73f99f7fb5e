"""URI templates: which URIs match, with which values, and which templates are refused."""

import time

import pytest

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
    ("{a}aa{b}", "caab", {"a": "c", "b": "b"}),
    ("{a}-{b}/{+c}/{d}", "1-2-3/4/5/6", {"a": "1-2", "b": "3", "c": "4/5", "d": "6"}),
    ("{a}/{b}.{c}/{d}", "1.x/2.y.z/3", {"a": "1.x", "b": "2.y", "c": "z", "d": "3"}),
    # The text between them is not in the later one.
    ("{a}aa{b}", "aaaaaa", None),
    ("{a}-{b}", "1-2-", None),
    ("{a}-{b}.txt", "1--.txt", None),
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
    ("{a}0{b}", "a0%200x", {"a": "a0 ", "b": "x"}),
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
    ("{+path}/raw", "a/raw/raw", {"path": "a/raw"}),
    # Reserved values leave alone what the template has for later.
    ("{+path}{?q}", "a/b?q=1", {"path": "a/b", "q": "1"}),
    ("{+path}{?q}", "a/b", {"path": "a/b"}),
    ("{+path}{?q}", "a?x?q=1", None),
    ("{+path}{?q}", "a?z=1", None),
    ("{+path}?v={v}", "a?v=1", {"path": "a", "v": "1"}),
    ("{+path}?v={v}", "a?b?v=1", None),
    # Segments.
    ("users{/id}", "users/7", {"id": "7"}),
    ("users{/id}", "users", {}),
    ("users{/id}", "users/", {"id": ""}),
    ("users{/id}", "users/7/8", None),
    ("users{/id}", "users7", None),
    ("users{/a,b}", "users/1", {"a": "1"}),
    ("users{/a,b}", "users/1/2", {"a": "1", "b": "2"}),
    ("users{/a,b}", "users/1/2/3", None),
    # Lists of segments.
    ("tree{/path*}", "tree/a/b/c", {"path": ["a", "b", "c"]}),
    ("tree{/path*}", "tree/a", {"path": ["a"]}),
    ("tree{/path*}", "tree/a%2Fb/c", {"path": ["a/b", "c"]}),
    ("tree{/path*}", "tree/a//b", {"path": ["a", "", "b"]}),
    ("tree{/path*}", "tree/", {"path": [""]}),
    ("tree{/path*}", "tree", {}),
    ("tree{/path*}", "trees", None),
    ("tree{/path*}", "tree/a:b", None),
    ("{/owner,path*}", "/o/a/b", {"owner": "o", "path": ["a", "b"]}),
    ("{/owner,path*}", "/o", {"owner": "o"}),
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
@pytest.mark.parametrize("template", ["note://{id}", "{+everything}", "{+a}{?b,c}"])
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
    ("{+}", 1, ["''", "not a name"]),
    ("{?}", 1, ["not a name"]),
    ("{a,}", 1, ["not a name"]),
    ("{a,,b}", 1, ["not a name"]),
    ("{*}", 1, ["way back"]),
    ("{a-b}", 1, ["'a-b'", "digits and _"]),
    ("{a b}", 1, ["'a b'"]),
    ("{ a}", 1, ["' a'"]),
    ("{a, b}", 1, ["' b'"]),
    ("{é}", 1, ["'é'"]),
    ("{\u0661}", 1, ["not a name"]),
    ("{%41}", 1, ["'%41'"]),
    ("{a.}", 1, ["'a.'"]),
    ("{a..b}", 1, ["'a..b'"]),
    ("{a\n}", 1, ["not a name"]),
    ("{?a*b}", 1, ["'a*b'"]),
    ("{?a**}", 1, ["'a*'"]),
    ("{++a}", 1, ["'+a'"]),
    ("{=a}", 1, ["{=a}", "way back"]),
    ("{!a}", 1, ["way back"]),
    ("{@a}", 1, ["way back"]),
    ("{|a}", 1, ["way back"]),
    ("{,a}", 1, ["way back"]),
    ("{a:3}", 1, ["{a:3}", "{x}, {+x}"]),
    ("x{/a:3}", 2, ["{/a:3}", "{/x}"]),
    ("{?a,b:10}", 1, ["{?a,b:10}", "{?a,b}"]),
    ("{a:}", 1, ["{a:}"]),
    ("{a,a}", 1, ["a occurs twice", "own name"]),
    ("{a}/{a}", 5, ["a occurs twice"]),
    ("{a}{?b,a}", 4, ["a occurs twice"]),
    ("{a*}", 1, ["{/x*}"]),
    ("{+a*}", 1, ["{/x*}"]),
    ("x{#a*}", 2, ["{#a*}"]),
    ("x{.a*}", 2, ["{.a*}"]),
    ("x{.a}", 2, ["{.a}", "{x}, {+x}"]),
    ("x{;a}", 2, ["{;a}", "{?a,b}"]),
    ("x{;a*}", 2, ["{;a*}"]),
    ("{/a*,b}", 1, ["put it last"]),
    ("a{x}{y}", 5, ["x ends and y begins", "put some text between"]),
    ("{x}{+y}", 4, ["x ends and y begins"]),
    ("{+x}{y}", 5, ["x ends and y begins"]),
    ("{a,b}{c,d}", 6, ["b ends and c begins"]),
    ("{/x}{y}", 5, ["end of the path"]),
    ("{/x}/y", 5, ["end of the path"]),
    ("{/x}/{+y}", 5, ["end of the path"]),
    ("{/x*}/{y}", 6, ["end of the path"]),
    ("{/x}#a{?y}", 7, ["begun already"]),
    ("{/x}{/y}", 5, ["end of the path"]),
    ("{+x}{/y}", 5, ["x ends and y begins", "put some text between"]),
    ("{+x}/a{/y*}", 7, ["x ends and y begins", "only one"]),
    ("{x}-{+y}", 5, ["x ends and y begins", "put a / between"]),
    ("{+x}/{y}{/z*}", 9, ["y ends and z begins", "only one"]),
    ("{+x}{/y*}", 5, ["x ends and y begins", "put some text between"]),
    ("{+x}/{y}/{+z}", 10, ["y ends and z begins", "only one"]),
    ("{+x,y}", 1, ["x ends and y begins", "only one"]),
    ("{?x}{?y}", 5, ["put it last, with all variables"]),
    ("{?x}/a", 5, ["nothing can follow"]),
    ("{?x}{/y}", 5, ["nothing can follow"]),
    ("a?b=1{?x}", 6, ["begun already"]),
    ("{+a}?b={c}{?d}", 11, ["begun already"]),
    ("a?b=1{&x}", 6, ["{&x}", "{?a,b}"]),
    ("a{#x}", 2, ["{#x}", "way back"]),
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
    template = UriTemplate.parse("x://{a}.{d}/-/{+g}/{e},{f}{/b,c}{?h,i*}")
    assert template.match("x://1.4/-/7/8/5,6/2/3?h=9&i=10&i=11") == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "4",
        "e": "5",
        "f": "6",
        "g": "7/8",
        "h": "9",
        "i": ["10", "11"],
    }
    assert template.match("x://1.4/-/7/5,6") == {"a": "1", "d": "4", "g": "7", "e": "5", "f": "6"}


# -- time --------------------------------------------------------------------------------------

HARD = [
    "-".join(f"{{v{number}}}" for number in range(12)) + "!",
    "--".join(f"{{v{number}}}" for number in range(12)) + "!",
    "-a-".join(f"{{v{number}}}" for number in range(12)) + "!",
    "%20".join(f"{{v{number}}}" for number in range(12)) + "!",
    "{+a}/{b}-{c}_{d}.{e}!",
    "{a}-{b}/{+c}/{d}-{e}/{f}!{?q}",
    "{+a}aa{b}aa{c}/{d}!",
    "{+a}-x{/b,c,d}{?e,f}",
    "{+a}_{b}-{c}{?q,r*}",
    "{a}.{b}{/c,d*}{?e}",
]
REPEATED = [
    *("-", "a", "/", "%20", "a-", "a--", "a-a-", "-a-", "/-", "a/", "a_b-c.d/", "-/", ".", "&"),
    *("?", "?&", "?q=", "/x", "-x/", "a,", "_-.", "%C3%A9"),
]


@pytest.mark.parametrize("template", HARD)
def test_no_uri_takes_long_however_it_is_made(template):
    """What tries one more place for each character takes 150 ms or more here, mostly for ever."""
    parsed = UriTemplate.parse(template)
    parsed.match(template)
    for repeated in REPEATED:
        for tail in ("", "!", "/!", "///[", "?", "#"):
            uri = (repeated * 8190)[: 8190 - 9] + tail  # 3 divides it: whole escapes
            assert min(seconds(parsed.match, uri) for _ in range(3)) < 0.03, (uri[:20], tail)


def test_a_hundred_templates_and_a_uri_of_a_megabyte():
    templates = [UriTemplate.parse(f"note://{{a}}-{{b}}/{number}/{{+c}}") for number in range(100)]
    for uri in ("note://" + "-/" * 500_000, "note://" + "-a/%2F" * 1300):
        assert min(seconds(match_all, templates, uri) for _ in range(3)) < 0.1


def match_all(templates, uri):
    assert not any(template.match(uri) for template in templates)


def seconds(function, *args):
    """The processor time of a call."""
    before = time.thread_time()
    function(*args)
    return time.thread_time() - before


def test_a_query_of_many_pairs():
    template = UriTemplate.parse("x{?a,tag*}")
    uri = "x?" + "&".join(["tag=1"] * 1300)
    assert template.match(uri) == {"tag": ["1"] * 1300}
    assert template.match(uri + "&a=0") == {"a": "0", "tag": ["1"] * 1300}
    assert template.match(uri + "&b=0") is None
    assert template.match("x?" + "&" * 8000) is None
