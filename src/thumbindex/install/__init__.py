"""Which files of an MCP client say how to start a server, and how one entry of them is written
without touching the rest.
"""
