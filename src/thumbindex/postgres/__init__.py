"""The same index in PostgreSQL: builders publish what they make of their folders, any number of
servers answer from it.
"""
