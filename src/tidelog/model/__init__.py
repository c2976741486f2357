"""Values everybody shares: ids, error codes, limits, settings, time.

Imports nothing of ours, so that every room may import it. Start with `ids.py`.
"""
