"""From noisy released numbers to weights, curves and thresholds: costs no privacy.

Nothing here can see private data: no shares, clients, engines or ledger. Imports: `protocols`, `system`, and
of `inputs` what describes records and reads tables. Start with `noisy_counts`.
"""
