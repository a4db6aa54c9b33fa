"""Clients' uploads, from a client's seal to a party's sum.

- `task`, `policy`, `keys`: what clients, parties and coordinators know before the first upload.
- `envelope`: the bytes of what a client sends to one party.
- `client` seals envelopes, `counted_records` keeps a client to its bound, and `sending` uploads them, to all
  `upload_servers` at the same time, over `limited_connections`, which no server can hold up.
- `envelope_files` reads what anybody may have uploaded, `opening` opens one envelope, and `counting` opens
  all of them and adds them up.
- `lists`, `identities`, `reasons`: a party's list of its uploads, signed by `signatures`, and what all
  parties accept. `aggregates` are their inputs to runs.

A task is for releases, so `pipeline.tasks` makes and explains it.

Imports: `inputs` and below. Start with `task`, then `envelope`, `client` and `opening`.
"""
