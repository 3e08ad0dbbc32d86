"""What is in the folder?

Files walked, parsed, cut into sections and chunks; links resolved; changes found.
"""
