"""The parties' processes, for all engines.

Imports: `engines.base`, `online`, `inputs`, `system`. Start with `supervisor`.
"""
