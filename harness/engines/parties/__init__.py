"""The parties' processes, for all engines.

Imports: `engines.execution`, `online`, `inputs`, `system`. Start with `supervisor`.
"""
