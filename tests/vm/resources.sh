#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a program in a machine of its own, and fails it when the kernel counts other RDMA objects afterwards than before
# (contexts, domains, queues, queue pairs, regions): tests/vm/resources.sh PROGRAM...
# What a program that has ended leaves behind is a process of its own that still holds them, or the kernel's fault.
set -u
counts() { rdma resource show | sed 's/^[0-9]*: //' | sort; }
before=$(counts)
"$@"
status=$?
SECONDS=0
until after=$(counts) && [[ $after == "$before" ]]; do
    if ((SECONDS >= 5)); then
        echo "leak: RDMA objects before (<) and after (>) ${1##*/}:"
        diff <(echo "$before") <(echo "$after")
        exit 1
    fi
    sleep 0.1
done
exit "$status"
