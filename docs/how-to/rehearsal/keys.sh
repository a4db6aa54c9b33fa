#!/bin/bash
# Makes each organization's host and sealing keys, one that expires today and one for later, the task and the policies.
set -euo pipefail

for i in 0 1 2; do
    ./inv hosts.setup --party $i --directory rehearsal/org-$i
    ./inv keys --directory rehearsal/org-$i/sealing --name "Organization $i" \
        --address https://10.77.1.1$i/2027/ --until $(date -u +%F)
    ./inv keys --directory rehearsal/org-$i/sealing --until 2099-12-31
done
for i in 0 1 2; do
    others=$(ls rehearsal/org-*/party-*.certificates | grep -v org-$i | paste -sd,)
    ./inv hosts.setup --party $i --directory rehearsal/org-$i --pin $others
done

./inv task rehearsal/task.json --parties $(ls rehearsal/org-*/sealing/party.json | paste -sd,) \
    --groups a,b --labels 0,1 --max-count 1 --epsilon 3 --least-uploads 100 --until 2099-12-31
for i in 0 1 2; do
    cp rehearsal/task.json rehearsal/org-$i
    cat > rehearsal/org-$i/policy.toml <<END
port = 12000
coordinators = ["office"]

[[population]]
name = "rehearsal"
epsilon = 3
delta = "2^-30"
epsilon_per_run = 1
security = ["ring"]
upload_tasks = ["$(sha256sum < rehearsal/task.json | cut -c -64)"]
END
    ./inv hosts.policy --directory rehearsal/org-$i
done
