"""The parties' processes, for all engines.

Imports: `engines.base`, `clients`, `inputs`, `system`. Start with `supervisor`.
"""
