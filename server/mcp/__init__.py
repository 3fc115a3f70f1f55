"""An MCP server over `Runs`: an assistant starts runs, reads them, and answers what needs no person's consent."""
