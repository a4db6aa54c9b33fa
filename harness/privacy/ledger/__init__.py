"""The privacy ledger: the charges of each population's runs, and the budgets that refuse the next.

Imports: `protocols`, `system`. Start with `populations`; `charge` is a run's way through it.
"""
