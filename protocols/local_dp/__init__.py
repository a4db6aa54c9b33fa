"""Local differential privacy: a client randomizes its own record; estimates and audits of reports."""
