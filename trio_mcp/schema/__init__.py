"""Python types to JSON Schema; checking of schemas and values; JSON to Python and back."""

from trio_mcp.schema.annotations import schema_of
from trio_mcp.schema.bounds import check_schema
from trio_mcp.schema.errors import ArgumentError, SchemaError
from trio_mcp.schema.functions import FunctionSchema, describe_function
from trio_mcp.schema.parameters import (
    AnyValue,
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    OneOf,
    Parameter,
    String,
)
from trio_mcp.schema.signatures import check_function, name_of
from trio_mcp.schema.unstructuring import unstructure
from trio_mcp.schema.validate import TAKES_LONG, Validator, compile_validator

__all__ = [
    "TAKES_LONG",
    "AnyValue",
    "ArgumentError",
    "Array",
    "Boolean",
    "FunctionSchema",
    "Integer",
    "Number",
    "Object",
    "OneOf",
    "Parameter",
    "SchemaError",
    "String",
    "Validator",
    "check_function",
    "check_schema",
    "compile_validator",
    "describe_function",
    "name_of",
    "schema_of",
    "unstructure",
]
