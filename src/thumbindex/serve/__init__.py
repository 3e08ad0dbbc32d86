"""Who is asking? The command line, the MCP server, and how answers are written for each."""
