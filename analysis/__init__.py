"""Reads run folders and says how sure we are: load, smooth, stats, verdict, claims, tables, figures, report.

Never imports torch, the training core or the sweep; pandas and matplotlib only when a function needs them.
"""
