"""Public functions, declared once: `tools/functions.py` writes their signatures and docstrings for every namespace."""
