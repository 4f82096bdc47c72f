# SPDX-License-Identifier: Apache-2.0
# For the scripts that run tests/rdma/rounds in virtual machines. Sourced first; $rounds is the program, $work a folder for
# $work/secret, which the ranks share, and whatever else; it is removed at the end.
if [[ ! ${WEFT_VM-} ]]; then
    echo "SKIP: the machine and its network are not this test's to disturb (WEFT_VM is not set)"
    exit 77
fi
rounds=${BUILD:-build}/tests/rdma/rounds
if [[ ! -x $rounds ]]; then
    echo "SKIP: tests/rdma/rounds is not built without libibverbs-dev"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(umask 077 && echo "the secret of this test's ranks" >"$work/secret")
