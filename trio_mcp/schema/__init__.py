"""Python types to JSON Schema; checking of schemas and values; JSON to Python and back.

What only schemas and parameters need that are written by hand (`bounds.check_schema`, `parameters`)
is imported from its module, so that nobody else waits for it.
"""

from trio_mcp.schema.annotations import schema_of
from trio_mcp.schema.errors import ArgumentError, Problem
from trio_mcp.schema.functions import FunctionSchema, describe_function
from trio_mcp.schema.signatures import check_function, name_of
from trio_mcp.schema.unstructuring import unstructure
from trio_mcp.schema.validate import TAKES_LONG, Validator, compile_validator
from trio_mcp.wire.errors import SchemaError

__all__ = [
    "TAKES_LONG",
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
