"""Set up MCP clients: find their configuration files, and edit only our entry in them."""
