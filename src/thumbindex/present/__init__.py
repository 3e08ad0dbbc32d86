"""Records as sentences and JSON, for the command line, the MCP server and the page."""
