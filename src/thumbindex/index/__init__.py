"""Where is it kept? One SQLite file that is the truth, and views of it for words, vectors and
links.
"""
