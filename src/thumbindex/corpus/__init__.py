"""Read a folder of notes: list, parse and chunk files, resolve links, find changes."""
