"""What goes wrong in this room: a schema at registration, or an argument at a call."""


class SchemaError(ValueError):
    """A schema, an annotation or a default cannot be used; raised at registration.

    The message names the tool and the parameter where they are known, and says what to do.
    """

    __module__ = "trio_mcp.errors"


class ArgumentError(ValueError):
    """A value that its schema accepts cannot become the annotated Python type.

    A date such as `2024-13-45` is a string, so the schema lets it pass; it is no date, though.
    The message is a sentence for the caller: it names the argument, what was expected and what
    came.
    """
