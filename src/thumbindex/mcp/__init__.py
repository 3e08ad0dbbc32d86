"""The MCP server: tools, resources and what they reply."""
