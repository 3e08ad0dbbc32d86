"""The MCP server: its tools, resources and replies."""
