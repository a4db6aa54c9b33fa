#!/bin/bash
# Ends what runs in these networks, and removes them and all files.
set -euo pipefail

for name in $(ip netns list | grep -oE '^(org-[012]|office)'); do
    ip netns pids $name | xargs -r kill || true  # some end with others, as nginx' workers
    ip netns delete $name
done
rm -rf rehearsal
