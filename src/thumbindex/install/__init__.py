"""Set up MCP clients: find their files, and edit one entry without touching the rest."""
