"""The documentation: its site, and its examples as programs that run."""
