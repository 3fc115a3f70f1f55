"""How a blueprint refers to what a step may run: the built-in tools, agents, imports, MCP servers."""

AGENT = "agent:"
IMPORT = "imports."
MCP = "mcp:"

BUILTINS = frozenset(
    {
        "stringify",
        "passthrough",
        "context_set",
        "context_get",
        "context_merge",
        "select_fields",
        "flatten",
        "check_user_confirmation",
    }
)
"""Tools that run in workflow code and cost no activity."""
