#!/bin/bash
# Makes a network for each organization, 10.77.1.10 to 10.77.1.12, and one for coordinator and clients.
set -euo pipefail

mkdir -p rehearsal /run/sshd
ip netns add office
ip -n office link set lo up
ip -n office link add bridge type bridge
ip -n office addr add 10.77.1.254/24 dev bridge
ip -n office link set bridge up
for i in 0 1 2; do
    ip netns add org-$i
    ip -n office link add to-$i type veth peer name eth0 netns org-$i
    ip -n office link set to-$i master bridge up
    ip -n org-$i addr add 10.77.1.1$i/24 dev eth0
    ip -n org-$i link set lo up
    ip -n org-$i link set eth0 up
done
