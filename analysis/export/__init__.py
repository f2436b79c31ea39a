"""Profiles as files for other programs: one module a format, each with `write(profile, directory)`."""
