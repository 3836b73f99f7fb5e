"""Python types to JSON Schema; checking of schemas and values; JSON to Python and back.

What only schemas and parameters need that are written by hand (`bounds.check_schema`, `parameters`)
is imported from its module, so that nothing else waits for it.
"""

from typing import TYPE_CHECKING, Final

from trio_mcp.public import by_name, lazily
from trio_mcp.schema.annotations import schema_of
from trio_mcp.schema.errors import ArgumentError, Problem
from trio_mcp.schema.functions import FunctionSchema, describe_function
from trio_mcp.schema.signatures import check_function, name_of
from trio_mcp.schema.unstructuring import unstructure
from trio_mcp.schema.validate import Validator, compile_validator
from trio_mcp.wire.errors import SchemaError

if TYPE_CHECKING:
    from trio_mcp.schema.parameters import AnyValue as AnyValue
    from trio_mcp.schema.parameters import Array as Array
    from trio_mcp.schema.parameters import Boolean as Boolean
    from trio_mcp.schema.parameters import Integer as Integer
    from trio_mcp.schema.parameters import Number as Number
    from trio_mcp.schema.parameters import Object as Object
    from trio_mcp.schema.parameters import OneOf as OneOf
    from trio_mcp.schema.parameters import Parameter as Parameter
    from trio_mcp.schema.parameters import String as String

MODULES: Final = by_name(
    {"schema.parameters": "AnyValue Array Boolean Integer Number Object OneOf Parameter String"}
)

__all__ = [
    *MODULES,
    "ArgumentError",
    "FunctionSchema",
    "Problem",
    "SchemaError",
    "Validator",
    "check_function",
    "compile_validator",
    "describe_function",
    "name_of",
    "schema_of",
    "unstructure",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(globals(), MODULES)
