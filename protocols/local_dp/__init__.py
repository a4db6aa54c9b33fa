"""Local differential privacy: a client randomizes its own record; estimates and audits of the reports.

Imports: `protocols.noise`, `protocols.circuits`. Start with `randomizers`.
"""
