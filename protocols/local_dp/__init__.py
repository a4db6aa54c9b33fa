"""Local differential privacy: a client randomises its own record; estimates and audits of that.

Imports: `protocols.noise`, `protocols.circuits`. Start with `randomizers`.
"""
