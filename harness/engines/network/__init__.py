"""Networks between parties on one machine: profiles, and the relay that emulates them.

Imports: `engines.base`, `system`. Start with `profiles`.
"""
