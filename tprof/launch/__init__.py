"""Runs an unchanged program under a recording: as ``__main__``, with tasks selected by patterns."""
