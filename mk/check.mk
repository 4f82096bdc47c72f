# SPDX-License-Identifier: Apache-2.0
# Targets that install what is missing, build and run. Each installs what it needs itself and no more.

#: deps          install what building needs, where it is missing (Debian, Ubuntu); other targets install more themselves
.PHONY: deps
deps:
	$(Q)tests/scripts/deps.sh build

#: demo          checked allreduce between 4 local processes, over shared memory and over TCP
.PHONY: demo
demo: deps
	+$(Q)$(again) lib-static $(BUILD)/weft-perf
	$(Q)BUILD=$(BUILD) tests/scripts/demo.sh

#: check         the tests, then those of base, algos and topo with sanitizers; check-plain, check-asan, check-layers, check-style: parts of it
.PHONY: check check-plain check-asan check-single check-quiet check-tools check-programs check-layers check-style check-abi abi-baseline
check:
	$(Q)tests/scripts/sum.sh "$(MAKE) check-plain" "$(MAKE) check-asan"

check-plain:
	$(Q)tests/scripts/deps.sh build check
	+$(Q)$(again) WERROR=1 tests
	$(Q)BUILD=$(BUILD) CC="$(CC)" MAKE="$(MAKE)" TEST_TIMEOUT=$${TEST_TIMEOUT:-300} tests/run.sh --not-quiet $(CHECKS) $(TESTS) $(SCRIPTS)

# The address and undefined sanitizers find most per minute where one process does all: make asan has the rest.
check-asan: export WERROR = 1
check-asan:
	$(Q)tests/scripts/deps.sh build check
	$(Q)CC="$(CC)" MAKE="$(MAKE)" BUILD=$(BUILD) tests/scripts/sanitize.sh asan single

check-single: single-tests
	$(Q)BUILD=$(BUILD) tests/run.sh --not-quiet $(SINGLE)

#: check-quiet   the tests that judge by the machine's clock, one at a time: when nothing else runs
check-quiet:
	$(Q)tests/scripts/deps.sh build check
	+$(Q)$(again) WERROR=1 tests
	$(Q)BUILD=$(BUILD) CC="$(CC)" MAKE="$(MAKE)" tests/run.sh --quiet $(TESTS) $(SCRIPTS)

#: check-programs    the test programs and scripts, without installing anything
check-programs: tests
	$(Q)BUILD=$(BUILD) tests/run.sh --not-quiet $(TESTS) $(SCRIPTS)

check-layers: all
check-layers check-style: check-%:
	$(Q)BUILD=$(BUILD) CC="$(CC)" tests/checks/check_$*.sh

#: check-tools   the tests that run other programs: Open MPI, Slurm, clang-format, abidiff, rsvg-convert, qemu for aarch64
check-tools:
	$(Q)tests/scripts/deps.sh build check tools
	+$(Q)$(again) WERROR=1 all $(BUILD)/tests/system/test_pmix
	$(Q)BUILD=$(BUILD) CC="$(CC)" MAKE="$(MAKE)" TEST_LOGS=$${TEST_LOGS:-$(BUILD)/tools-logs} tests/run.sh $(TOOL_SCRIPTS)

#: check-abi     what libweft.so exports, and how that differs from tests/abi/
check-abi: $(BUILD)/libweft.so
	$(Q)BUILD=$(BUILD) tests/checks/check_abi.sh
	$(Q)BUILD=$(BUILD) tests/tools/check_baseline.sh

#: abi-baseline  accept the present ABI: rewrite tests/abi/
abi-baseline: $(BUILD)/libweft.so
	$(Q)BUILD=$(BUILD) tests/tools/check_baseline.sh --refresh

# The same programs built with sanitizers, each build in its own folder. Options and the suppressions, which name only other people's
# code, are in tests/scripts/sanitize.sh.
#: asan tsan     the tests under sanitizers: address and undefined, thread
.PHONY: asan tsan
asan tsan: export WERROR = 1
asan tsan:
	$(Q)CC="$(CC)" MAKE="$(MAKE)" BUILD=$(BUILD) tests/scripts/sanitize.sh $@

#: fuzz          each fuzz target for FUZZ_SECONDS (60)
.PHONY: fuzz
FUZZ_SECONDS ?= 60
fuzz: export WERROR = 1
fuzz:
	$(Q)tests/scripts/deps.sh build check fuzz
	$(Q)MAKE="$(MAKE)" BUILD=$(BUILD) FUZZ_SECONDS=$(FUZZ_SECONDS) tests/scripts/fuzz.sh

# Clang's warnings need no code, and a library for another processor no test programs.
#: check-clang   clang's warnings; check-aarch64: the library for aarch64
.PHONY: check-clang check-aarch64
check-clang:
	$(Q)tests/scripts/deps.sh build check fuzz
	+$(Q)$(again) WERROR=1 CC=clang BUILD=$(BUILD)/clang warnings

check-aarch64:
	$(Q)tests/scripts/deps.sh build cross
	+$(Q)$(again) WERROR=1 CC=aarch64-linux-gnu-gcc BUILD=$(BUILD)/aarch64 O=-O1 lib-static

#: check-all     check, then what it leaves out: quiet, rdma, ze, torch, tools, asan, tsan, fuzz, clang, aarch64; FROM=tsan, ONLY="asan tsan"
.PHONY: check-all
check-all:
	$(Q)MAKE="$(MAKE)" tests/scripts/check-all.sh

#: check-long    check with WEFT_LONG=1, then sanitizers and fuzz
.PHONY: check-long
check-long:
	$(Q)MAKE="$(MAKE)" tests/scripts/check-long.sh

#: check-parts   builds without each optional part; what is missing is said
.PHONY: check-parts
check-parts:
	$(Q)tests/scripts/deps.sh build check
	$(Q)MAKE="$(MAKE)" CC="$(CC)" BUILD=$(BUILD) tests/scripts/parts.sh

# RDMA_DEVICE names devices of this system; without it the tests run in virtual machines that have some: tests/vm/.
#: check-rdma    tests over RDMA, in a virtual machine or with RDMA_DEVICE=mlx5_0
#: rdma-tests, check-rdma-programs    its programs; the same run, without installing anything
.PHONY: check-rdma check-rdma-programs
check-rdma:
	$(Q)tests/scripts/deps.sh build check rdma
	+$(Q)$(again) WERROR=1 rdma-tests
	$(Q)$(MAKE) --no-print-directory check-rdma-programs

check-rdma-programs: rdma-tests
	$(Q)BUILD=$(BUILD) RDMA_DEVICE=$(RDMA_DEVICE) tests/vm/check.sh $(RDMA_TESTS)

# On the fake driver, which Level Zero's loader loads.
#: check-ze      Level Zero's tests at full length, with the loader's validation layer, and the table of operations and types
.PHONY: check-ze
check-ze:
	$(Q)tests/scripts/deps.sh build check
	+$(Q)$(again) WERROR=1 ze-tests
	$(Q)BUILD=$(BUILD) tests/scripts/check-ze.sh $(ZE_TESTS)

# On a machine with an NVIDIA GPU; elsewhere they say why nothing ran. A kit takes the programs, with the libraries that they need,
# to such a machine.
#: check-gpu, perf-gpu    what needs an NVIDIA GPU; gpu-kit: packs it into $(BUILD)/gpu-kit for another machine
.PHONY: check-gpu perf-gpu gpu-kit
check-gpu perf-gpu:
	$(Q)tests/scripts/deps.sh build check
	+$(Q)$(again) gpu-programs
	$(Q)BUILD=$(BUILD) tests/gpu/run.sh $(@:-gpu=)

gpu-kit:
	$(Q)tests/scripts/deps.sh build check
	+$(Q)$(again) gpu-programs
	$(Q)BUILD=$(BUILD) tests/gpu/kit.sh

# In a virtual environment in $(BUILD)/torch with a torch of its own.
#: check-torch   the PyTorch backend's tests, with a torch of TORCH_VERSION (2.13.0) in $(BUILD)/torch
.PHONY: check-torch
check-torch:
	$(Q)tests/scripts/deps.sh build check torch
	+$(Q)$(again) lib-static $(if $(call have,ze),$(TEST_ZE))
	$(Q)BUILD=$(BUILD) tests/torch/check.sh
