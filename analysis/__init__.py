"""Trace to profile: attribution, power models, reports, exports."""
