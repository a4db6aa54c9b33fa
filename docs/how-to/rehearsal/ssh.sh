#!/bin/bash
# Starts each organization's sshd, for a key that starts the agent and nothing else; writes hosts.toml.
set -euo pipefail

ssh-keygen -q -t ed25519 -N "" -f rehearsal/coordinator-key
for i in 0 1 2; do
    ssh-keygen -q -t ed25519 -N "" -f rehearsal/host-key-$i
    echo "10.77.1.1$i $(cut -d " " -f -2 rehearsal/host-key-$i.pub)" >> rehearsal/known_hosts
    agent="cd $PWD && exec env -i HOME=$HOME PATH=/usr/bin:/bin PYTHONPATH=$PWD"
    agent="$agent .venv/bin/python -P -m fairshares.harness.hosts.agent $PWD/rehearsal/org-$i '' office"
    echo "restrict,command=\"$agent\" $(cat rehearsal/coordinator-key.pub)" > rehearsal/authorized-$i
    cat > rehearsal/sshd-$i.conf <<END
HostKey $PWD/rehearsal/host-key-$i
AuthorizedKeysFile $PWD/rehearsal/authorized-$i
PermitRootLogin forced-commands-only
PidFile none
StrictModes no
END
    ip netns exec org-$i /usr/sbin/sshd -f $PWD/rehearsal/sshd-$i.conf
    cat >> rehearsal/hosts.toml <<END
[[host]]
party = $i
address = "10.77.1.1$i"
directory = "$PWD/rehearsal/org-$i"
project = "$PWD"
port = 12000
ssh_user = "root"
key_file = "$PWD/rehearsal/coordinator-key"
known_hosts = "$PWD/rehearsal/known_hosts"
END
done
