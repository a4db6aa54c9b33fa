"""The privacy ledger: what each population's runs have spent, and the budgets that refuse the next.

Imports: `protocols`, `system`. Start with `populations`; `charge` is a run's way through it.
"""
