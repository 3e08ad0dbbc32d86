"""Do two texts say the same?

Pure: words, letters, paths and what differs; seen by query and library.
"""
