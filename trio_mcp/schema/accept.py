"""A quick yes: schemas compiled to Python.

Nearly every call is valid, so what matters is how fast that is found out. For the subset of JSON
Schema that annotations and most tools use, a schema becomes the source of a few Python functions,
which is compiled once. What such a function accepts, jsonschema accepts too. What it does not
accept may still be valid (a list of unequal objects, a bound on a float that is no number): then
jsonschema decides, and finds the words if it says no.

The source holds property names and small numbers through `repr`, and everything else through
names in the function's globals, so that no text from a schema is ever run.

A schema is left alone if it uses a keyword that is not in the subset, or if it could look at one
value more than a bounded number of times (`_Cost`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trio_mcp.schema.errors import SchemaError
from trio_mcp.schema.keywords import parts_of, resolve_pointer

__all__ = ["Acceptor", "compile_acceptor"]

Acceptor = Callable[[Any], bool]

_DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
}
_MOST_WORK = 2_000
_DEFINITIONS = ("$defs", "definitions")

_NUMERIC = {
    "minimum": ">=",
    "maximum": "<=",
    "exclusiveMinimum": ">",
    "exclusiveMaximum": "<",
}
_LENGTHS = {
    "minLength": ">=",
    "maxLength": "<=",
    "minItems": ">=",
    "maxItems": "<=",
    "minProperties": ">=",
    "maxProperties": "<=",
}
_BY_TYPE: dict[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern"),
    "number": (*_NUMERIC, "multipleOf"),
    "array": ("minItems", "maxItems", "items", "prefixItems", "uniqueItems"),
    "object": (
        "minProperties",
        "maxProperties",
        "properties",
        "required",
        "additionalProperties",
        "propertyNames",
    ),
    "boolean": (),
    "null": (),
}
_PLAIN_TESTS = {
    "string": "type({0}) is str",
    "array": "type({0}) is list",
    "object": "type({0}) is dict",
    "boolean": "({0} is True or {0} is False)",
    "null": "{0} is None",
    "number": "type({0}) in numbers",
    "integer": "(type({0}) is int or type({0}) is float and {0}.is_integer())",
}
_WITHOUT_MEANING = {
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
    "contentEncoding",
    "contentMediaType",
    "$comment",
    "$defs",
    "definitions",
    "$schema",
}


class _Unsupported(Exception):
    """The schema is not in the subset."""


def compile_acceptor(schema: Any) -> Acceptor | None:
    """Compile a schema to a function that says yes.

    Args:
        schema: A valid schema.

    Returns:
        A function that is true only of values that are valid, or `None` where the schema is
        beyond what is compiled. It may raise `RecursionError` for a value nested too deeply.
    """
    try:
        return _Compiler(schema).compile()
    except (_Unsupported, LookupError, RecursionError, SchemaError):
        return None


class _Compiler:
    """Gathers the source of one acceptor, function by function."""

    def __init__(self, root: Any) -> None:
        dialect = root.get("$schema", "") if isinstance(root, Mapping) else ""
        if dialect and (not isinstance(dialect, str) or dialect.rstrip("#") not in _DIALECTS):
            raise _Unsupported("$schema")
        self._root = root
        self._lone_references = "draft-07" in dialect
        self._modern = not dialect or "2020-12" in dialect
        self._functions: list[str] = []
        self._names = itertools.count()
        self._constants: dict[str, Any] = {
            "numbers": (int, float),
            "missing": object(),
            "unique": _unique,
            "is_multiple": _is_multiple,
        }
        self._references: dict[str, str] = {}

    def compile(self) -> Acceptor:
        _Cost(self._root).check()
        self._define("accept", self._root)
        source = "\n".join(self._functions)
        exec(compile(source, "<schema>", "exec"), self._constants)  # noqa: S102 - see above
        accept: Acceptor = self._constants["accept"]
        return accept

    # Expressions ----------------------------------------------------------------------------

    def _constant(self, value: Any) -> str:
        """How the source refers to a value."""
        if type(value) is str or (type(value) is int and abs(value) < 2**63):
            return repr(value)
        name = f"constant{next(self._names)}"
        self._constants[name] = value
        return name

    def _function(self, lines: Iterable[str]) -> str:
        name = f"accept{next(self._names)}"
        body = "\n".join(f" {line}" for line in lines)
        self._functions.append(f"def {name}(value):\n{body}\n return True")
        return name

    def _define(self, name: str, schema: Any) -> None:
        """A function of its own for a schema; a plain object needs no second one for its body."""
        lines = [f"return {self._test(schema, 'value')}"]
        if isinstance(schema, Mapping) and schema.get("type") == "object":
            body = schema.keys() - _WITHOUT_MEANING - {"type"}
            if body and body <= _OBJECT_BODY:
                lines = ["if type(value) is not dict: return False", *self._object(schema)]
                lines.append("return True")
        self._functions.append(f"def {name}(value):\n " + "\n ".join(lines))

    def _test(self, schema: Any, it: str) -> str:
        """An expression that is true if the variable `it` fits `schema`."""
        if isinstance(schema, bool):
            return str(schema)
        if not isinstance(schema, Mapping):
            raise _Unsupported("a schema is an object or a boolean")
        for keyword in schema:
            if keyword not in _SUPPORTED and not keyword.startswith("x-"):
                raise _Unsupported(keyword)
        tests = [self._test_type(schema, it)]
        tests += [
            write(self, schema, it) for keyword, write in _COMBINED.items() if keyword in schema
        ]
        tests = [test for test in tests if test != "True"]
        return f"({' and '.join(tests)})" if len(tests) > 1 else "".join(tests) or "True"

    def _test_type(self, schema: Mapping[str, Any], it: str) -> str:
        kinds = _types_of(schema)
        if kinds is None:
            kinds = list(_BY_TYPE)
            if not any(keyword in schema for keywords in _BY_TYPE.values() for keyword in keywords):
                return "True"
        alternatives = [self._test_one_type(kind, schema, it) for kind in kinds]
        return f"({' or '.join(alternatives)})" if len(alternatives) > 1 else alternatives[0]

    def _test_one_type(self, kind: str, schema: Mapping[str, Any], it: str) -> str:
        tests = [_PLAIN_TESTS[kind].format(it)]
        family = "number" if kind == "integer" else kind
        given = [keyword for keyword in _BY_TYPE[family] if keyword in schema]
        if kind in ("array", "object"):
            tests.extend(self._lengths(given, schema, it))
            if any(keyword not in _LENGTHS for keyword in given):
                lines = self._array(schema) if kind == "array" else self._object(schema)
                if lines:
                    tests.append(f"{self._function(lines)}({it})")
        elif kind == "string":
            tests.extend(self._lengths(given, schema, it))
            if "pattern" in schema:
                from trio_mcp.schema.patterns import compile_bounded

                tests.append(f"{self._constant(compile_bounded(schema['pattern']))}({it})")
        else:
            tests.extend(self._numeric(given, schema, it))
        return f"({' and '.join(tests)})" if len(tests) > 1 else tests[0]

    def _lengths(self, given: list[str], schema: Mapping[str, Any], it: str) -> list[str]:
        return [
            f"len({it}) {_LENGTHS[keyword]} {self._constant(_number(schema[keyword]))}"
            for keyword in given
            if keyword in _LENGTHS
        ]

    def _numeric(self, given: list[str], schema: Mapping[str, Any], it: str) -> list[str]:
        tests = []
        for keyword in given:
            bound = self._constant(_number(schema[keyword]))
            operator = _NUMERIC.get(keyword)
            if operator is not None:
                tests.append(f"{it} {operator} {bound}")
            else:
                tests.append(f"is_multiple({it}, {bound})")
        return tests

    def _enum(self, schema: Mapping[str, Any], it: str) -> str:
        return self._one_of_values(schema["enum"], it)

    def _const(self, schema: Mapping[str, Any], it: str) -> str:
        return self._one_of_values([schema["const"]], it)

    def _one_of_values(self, values: Any, it: str) -> str:
        """Scalars only; what else is listed is left to jsonschema."""
        tests = []
        for kinds, test in (
            ((str,), "type({0}) is str and {0} in {1}"),
            ((int, float), "type({0}) in numbers and {0} in {1}"),
        ):
            chosen = frozenset(value for value in values if type(value) in kinds)
            if chosen:
                tests.append(f"({test.format(it, self._constant(chosen))})")
        tests.extend(f"{it} is {value}" for value in (True, False, None) if _holds(values, value))
        return f"({' or '.join(tests)})" if tests else "False"

    def _all_of(self, schema: Mapping[str, Any], it: str) -> str:
        return f"({' and '.join(self._test(each, it) for each in schema['allOf'])})"

    def _any_of(self, schema: Mapping[str, Any], it: str) -> str:
        return f"({' or '.join(self._test(each, it) for each in schema['anyOf'])})"

    def _one_of(self, schema: Mapping[str, Any], it: str) -> str:
        """Only where no value can fit two of them, so that fitting one is enough."""
        members = schema["oneOf"]
        for one, other in itertools.combinations(members, 2):
            if not apart(self._root, one, other):
                raise _Unsupported("oneOf")
        return f"({' or '.join(self._test(each, it) for each in members)})"

    def _ref(self, schema: Mapping[str, Any], it: str) -> str:
        reference = schema["$ref"]
        if self._lone_references and len(schema) > 1:
            raise _Unsupported("keywords beside $ref")
        if reference not in self._references:
            name = f"accept{next(self._names)}"
            self._references[reference] = name
            self._define(name, resolve_pointer(self._root, reference))
        return f"{self._references[reference]}({it})"

    # Bodies ---------------------------------------------------------------------------------

    def _array(self, schema: Mapping[str, Any]) -> list[str]:
        lines = []
        prefix = schema.get("prefixItems", [])
        if prefix and not self._modern:
            raise _Unsupported("prefixItems")
        for index, each in enumerate(prefix):
            test = self._test(each, "item")
            if test != "True":
                lines += [
                    f"if len(value) > {index}:",
                    f" item = value[{index}]",
                    f" if not {test}: return False",
                ]
        items = self._test(schema.get("items", True), "item")
        if items != "True":
            rest = f"value[{len(prefix)}:]" if prefix else "value"
            lines += [f"for item in {rest}:", f" if not {items}: return False"]
        if schema.get("uniqueItems"):
            lines.append("if not unique(value): return False")
        return lines

    def _object(self, schema: Mapping[str, Any]) -> list[str]:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        additional = schema.get("additionalProperties", True)
        counted = additional is False
        lines = [
            f"if {self._constant(name)} not in value: return False"
            for name in required
            if name not in properties
        ]
        always = [name for name in properties if name in required]
        sometimes = [name for name in properties if name not in required]
        lines += self._required(properties, always)
        known = str(len(always))
        if counted and sometimes:
            lines.append(f"known = {known}")
            known = "known"
        for name in sometimes:
            lines += self._optional(name, self._test(properties[name], "item"), counted)
        if counted:
            lines.append(f"if len(value) != {known}: return False")
        elif additional is not True:
            lines += self._additional(self._test(additional, "item"), frozenset(properties))
        names = self._test(schema.get("propertyNames", True), "name")
        if names != "True":
            lines += ["for name in value:", f" if not {names}: return False"]
        return lines

    def _required(self, properties: Mapping[str, Any], names: list[str]) -> list[str]:
        if not names:
            return []
        lines = ["try:"]
        for name in names:
            test = self._test(properties[name], "item")
            lines.append(f" item = value[{self._constant(name)}]")
            if test != "True":
                lines.append(f" if not {test}: return False")
        return [*lines, "except KeyError:", " return False"]

    def _optional(self, name: str, test: str, counted: bool) -> list[str]:
        if test == "True" and not counted:
            return []
        lines = [f"item = value.get({self._constant(name)}, missing)", "if item is not missing:"]
        if test != "True":
            lines.append(f" if not {test}: return False")
        if counted:
            lines.append(" known += 1")
        return lines

    def _additional(self, test: str, known: frozenset[str]) -> list[str]:
        if test == "True":
            return []
        if not known:
            return ["for item in value.values():", f" if not {test}: return False"]
        return [
            "for name, item in value.items():",
            f" if name not in {self._constant(known)} and not {test}: return False",
        ]


_COMBINED: dict[str, Callable[[_Compiler, Mapping[str, Any], str], str]] = {
    "$ref": _Compiler._ref,
    "allOf": _Compiler._all_of,
    "anyOf": _Compiler._any_of,
    "oneOf": _Compiler._one_of,
    "enum": _Compiler._enum,
    "const": _Compiler._const,
}

_OBJECT_BODY = {*_BY_TYPE["object"]} - {*_LENGTHS}
_SUPPORTED = _WITHOUT_MEANING.union(["type"], _COMBINED, *_BY_TYPE.values())


# What the compiled source calls ---------------------------------------------------------------


def _unique(items: list[Any]) -> bool:
    """Whether all differ; strings only, because 1, 1.0 and True need more thought."""
    return all(type(each) is str for each in items) and len(set(items)) == len(items)


def _is_multiple(value: Any, step: Any) -> bool:
    return type(value) is int and type(step) is int and value % step == 0


# What is known of a schema --------------------------------------------------------------------


def _number(value: Any) -> Any:
    if type(value) not in (int, float):
        raise _Unsupported("a bound that is no number")
    return value


def _holds(values: Any, wanted: Any) -> bool:
    return any(value is wanted for value in values)


def _types_of(schema: Any) -> list[str] | None:
    """The types that the keyword `type` allows, or `None` if it is not there."""
    if not isinstance(schema, Mapping) or "type" not in schema:
        return None
    kinds = schema["type"]
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not kinds or any(kind not in _PLAIN_TESTS for kind in kinds):
        raise _Unsupported("type")
    return list(kinds)


def apart(root: Any, one: Any, other: Any) -> bool:
    """Whether it is plain to see that no value fits both schemas.

    They differ in type, or both demand a property and want different strings in it.
    """
    one, other = _followed(root, one), _followed(root, other)
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return False
    first, second = _types_of(one), _types_of(other)
    if first is not None and second is not None and not _families(first) & _families(second):
        return True
    if first != ["object"] or second != ["object"]:
        return _differ(_strings(one), _strings(other))
    shared = set(one.get("required", ())) & set(other.get("required", ()))
    return any(_differ(_tag(root, one, name), _tag(root, other, name)) for name in shared)


def _families(kinds: list[str]) -> set[str]:
    return {"number" if kind == "integer" else kind for kind in kinds}


def _followed(root: Any, schema: Any) -> Any:
    for _ in range(16):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        schema = resolve_pointer(root, schema["$ref"])
    raise _Unsupported("a chain of references")


def _tag(root: Any, schema: Mapping[str, Any], name: str) -> set[str] | None:
    return _strings(_followed(root, schema.get("properties", {}).get(name)))


def _strings(schema: Any) -> set[str] | None:
    """The strings that are all that the schema allows, if that is what it says."""
    if not isinstance(schema, Mapping):
        return None
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if not values or any(type(value) is not str for value in values):
        return None
    return set(values)


def _differ(one: set[str] | None, other: set[str] | None) -> bool:
    return one is not None and other is not None and not one & other


class _Cost:
    """Refuses schemas that may look at one value again and again.

    References make that easy: ten definitions that each hold the next one twice are a thousand
    checks of one value, and alternatives that recur in each other double the work with every
    level of the value. So the expansion of a schema is counted, and of the parts that look at one
    value at most one may recur, unless they are for values of different types.
    """

    def __init__(self, root: Any) -> None:
        self._root = root
        self._work: dict[int, int] = {}
        self._open: set[int] = set()
        self._recurring: set[int] = set()

    def check(self) -> None:
        if self._measure(self._root) > _MOST_WORK:
            raise _Unsupported("too much work")
        if self._recurring:
            self._spread()
            for schema in self._all(self._root, {}):
                self._check_branches(schema)

    def _children(self, schema: Any) -> list[Any]:
        children = [part.schema for part in parts_of(schema) if part.path[0] not in _DEFINITIONS]
        if isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
            children.append(resolve_pointer(self._root, schema["$ref"]))
        return children

    def _measure(self, schema: Any) -> int:
        """How many schemas there are with all references expanded; one that recurs is one."""
        key = id(schema)
        if isinstance(schema, bool):
            return 1
        if key in self._open:
            self._recurring.add(key)
            return 1
        if key not in self._work:
            self._open.add(key)
            total = 1 + sum(self._measure(each) for each in self._children(schema))
            self._open.discard(key)
            self._work[key] = min(total, _MOST_WORK + 1)
        return self._work[key]

    def _all(self, schema: Any, seen: dict[int, Any]) -> Iterable[Any]:
        if id(schema) not in seen:
            seen[id(schema)] = schema
            for each in self._children(schema):
                self._all(each, seen)
        return seen.values()

    def _spread(self) -> None:
        """Let everything that leads to what recurs count as recurring."""
        schemas = list(self._all(self._root, {}))
        before = -1
        while before != len(self._recurring):
            before = len(self._recurring)
            self._recurring.update(
                id(each)
                for each in schemas
                if any(id(child) in self._recurring for child in self._children(each))
            )

    def _check_branches(self, schema: Any) -> None:
        if not isinstance(schema, Mapping):
            return
        below = any(
            id(part.schema) in self._recurring
            for part in parts_of(schema)
            if not part.in_place and part.path[0] not in _DEFINITIONS
        )
        branches = int(below)
        for keyword in ("allOf", "anyOf", "oneOf"):
            members = [each for each in schema.get(keyword, ()) if id(each) in self._recurring]
            told_apart = keyword != "allOf" and all(
                apart(self._root, one, other) for one, other in itertools.combinations(members, 2)
            )
            branches += min(1, len(members)) if told_apart else len(members)
        if "$ref" in schema:
            branches += id(resolve_pointer(self._root, schema["$ref"])) in self._recurring
        if branches > 1:
            raise _Unsupported("branches that recur")
