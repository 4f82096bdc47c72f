#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The pictures of docs/topology.md, drawn by weft-topo from texts: tests/scripts/pictures.sh [FOLDER], docs/pictures without.
set -eu
cd "$(dirname "$0")/../.."
topo=${BUILD:-build}/weft-topo
folder=${1:-docs/pictures}
mkdir -p "$folder"
draw() { # NAME TEXT
    "$topo" --input "$2" --format svg >"$folder/$1.svg"
}
draw machine "machine:gpus=8,nvlink=18,cores=112"
draw fabric "fat-tree:leaves=4,nodes-per-leaf=4,gpus=4,nvlink=4,rails=4,spines=2"
draw fat-tree-2048 "fat-tree:leaves=64,nodes-per-leaf=32,gpus=8,rails=8,oversubscription=4"
