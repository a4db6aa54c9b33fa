"""Networks between parties on one machine: profiles, and the relay that emulates them.

Imports: `system`. Start with `profiles`.
"""
