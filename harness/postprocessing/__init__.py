"""From noisy released numbers to weights, curves and thresholds: costs no privacy.

Nothing here can see private data: no shares, clients, engines or ledger. Imports: `protocols`,
`inputs.record_schema`. Start with `noisy_counts`.
"""
