"""References of a blueprint to what a step may run: built-in tools, agents, imports, MCP servers."""

from pathlib import PurePosixPath

from holdfast.blueprint.findings import Findings, check_function
from holdfast.blueprint.words.text import one_line

AGENT = "agent:"
IMPORT = "imports."
MCP = "mcp:"
ANY_TOOL = "a tool"
"""The name of a tool that is known only when its plan runs."""

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


def check_callable_name(name: str, path: str, findings: Findings) -> None:
    """Report what names neither a tool, nor a function, nor one tool of an MCP server, as a step itself calls it."""
    if name.startswith(MCP):
        if not all(name.removeprefix(MCP).partition("/")[::2]):
            message = f"{name[:60]!r} does not name a tool of an MCP server"
            findings.add(path, "bad_value", message, "write mcp:<server>/<tool>")
    elif ":" in name:
        check_function(name, path, findings)


def model(name: str) -> str:
    """Return the description of a model from its name.

    >>> model("scripted:/srv/flows/replies.yaml"), model("openai-compatible:llama@http://localhost:1"), model("echo")
    ('scripted by replies.yaml', 'llama at http://localhost:1', 'echo: repeats its input')
    """
    kind, _, rest = name.partition(":")
    match kind:
        case "scripted":
            return f"scripted by {one_line(PurePosixPath(rest.replace(chr(92), '/')).name, 60)}"
        case "openai-compatible":
            return one_line(rest.replace("@", " at ", 1), 80)
        case "echo":
            return "echo: repeats its input"
    return one_line(name, 80)


def tool_name(name: str) -> str:
    """Return the description of a tool from its name: a function, an agent, a blueprint or an MCP tool.

    >>> tool_name("agent:lawyer"), tool_name("imports.review"), tool_name("mcp:files"), tool_name("mcp:files/read")
    ('the agent lawyer', 'the blueprint review', 'everything of the MCP server files', 'read of the MCP server files')
    """
    if name.startswith(AGENT):
        return f"the agent {name.removeprefix(AGENT)}"
    if name.startswith(IMPORT):
        return f"the blueprint {name.removeprefix(IMPORT)}"
    if name.startswith(MCP):
        server, _, tool = name.removeprefix(MCP).partition("/")
        return f"{one_line(tool, 60) or 'everything'} of the MCP server {one_line(server, 60)}"
    return one_line(name, 60)
