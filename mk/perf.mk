# SPDX-License-Identifier: Apache-2.0
# Measurements, and what is drawn or written for docs/.

#: perf-torch    allreduce and training steps on weft and on gloo, in one run
.PHONY: perf-torch
perf-torch: deps
	+$(Q)$(again) lib-static
	$(Q)BUILD=$(BUILD) perf/torch/run.sh

#: perf-peers    the sweeps beside Open MPI, MPICH, Intel MPI, oneCCL and Gloo
.PHONY: perf-peers
perf-peers:
	$(Q)tests/scripts/deps.sh build
	+$(Q)$(again) all
	$(Q)BUILD=$(BUILD) CC="$(CC)" MAKE="$(MAKE)" perf/peers/run.sh

#: perf-rdma     messages and allreduce beside perftest, in a virtual machine or with RDMA_DEVICE=mlx5_0
.PHONY: perf-rdma
perf-rdma:
	$(Q)tests/scripts/deps.sh build rdma
	+$(Q)$(again) all
	$(Q)BUILD=$(BUILD) RDMA_DEVICE=$(RDMA_DEVICE) perf/rdma/run.sh

#: pictures      those of docs/topology.md, by weft-topo
.PHONY: pictures
pictures: $(BUILD)/weft-topo
	$(Q)BUILD=$(BUILD) tests/scripts/pictures.sh

# TOPOLOGIES: a folder of real ones.
#: topo-report   what the order of ranks is worth, in figures: docs/topology-report.md
.PHONY: topo-report
TOPOLOGIES ?= $(wildcard ../shared/data/topologies)
topo-report: deps
	+$(Q)$(again) $(BUILD)/perf/micro/topo_report
	$(Q)$(BUILD)/perf/micro/topo_report $(TOPOLOGIES) >$(BUILD)/topology-report.md
	$(Q)mv $(BUILD)/topology-report.md docs/ && echo "written: docs/topology-report.md"
