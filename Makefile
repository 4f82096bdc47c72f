# SPDX-License-Identifier: Apache-2.0
# weft: build, test, install. `make help` lists the targets. V=1 shows commands.
#
# CC=clang builds with clang; use another BUILD folder for it, objects do not remember their compiler.

ifeq ($(origin CC),default)
CC := gcc
endif
BUILD ?= build
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
O ?= -O2 -g
MODE_FLAGS ?=
FUZZ_SECONDS ?= 60
# Tests are linked without debug information, which stays in the objects: each program would carry all of the library's, and two
# hundred of them fill a disk. TEST_LINK= keeps it.
TEST_LINK ?= -Wl,-S

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wundef -Wvla -Werror
PACKAGE_FLAGS := $(shell pkg-config --cflags expat hwloc jansson libfabric libsodium yaml-0.1 2>/dev/null)
CPPFLAGS_ALL := -D_GNU_SOURCE -I. -Iinclude -MMD -MP $(PACKAGE_FLAGS) $(CPPFLAGS)
CFLAGS_ALL := -std=c11 $(O) -fPIC -fvisibility=hidden -ffp-contract=off $(WARN) $(MODE_FLAGS) $(CFLAGS)
LDFLAGS_ALL := $(MODE_FLAGS) $(LDFLAGS)
PRIVATE_LIBS := -lsodium -lexpat -lyaml -ldl -lpthread -lm
LIBS := -Wl,--as-needed $(PRIVATE_LIBS)
Q := $(if $(V),,@)
say = $(if $(V),,@echo "  $(1)	$(2)";)

# One kernel source, compiled once per instruction set, with VECTOR_FLAGS for all but the portable one; off x86-64 the last two
# objects are empty.
ifneq ($(filter x86_64%,$(shell $(CC) -dumpmachine 2>/dev/null)),)
EXTRA_reduce_avx2 := -mavx2 -mf16c $(VECTOR_FLAGS)
EXTRA_reduce_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mbmi2 $(VECTOR_FLAGS)
endif

# Version and soname follow include/weft/weft.h; the soname changes only with the major version.
VERSION := $(shell awk '$$2 ~ /^WEFT_VERSION_(MAJOR|MINOR|PATCH)$$/ { v = v dot $$3; dot = "." } END { print v }' include/weft/weft.h)
SONAME := libweft.so.$(firstword $(subst ., ,$(VERSION)))

# Programs that live beside library sources.
MAINS := algos/weft-plan.c topo/weft-topo.c
LIB_SOURCES := $(filter-out $(MAINS),$(wildcard base/*.c algos/*.c transport/*.c transport/*/*.c devmem/*.c devmem/cuda/*.c topo/*.c topo/files/*.c \
	topo/live/*.c comm/*.c))
# What is missing is not worth a line before these: they build in a make of their own, or print something to be read by a program.
UNASKED := $(filter deps demo check check-long check-rdma check-torch perf-torch check-gpu perf-gpu gpu-kit clean help print-libs,$(MAKECMDGOALS))
# Without libfabric's headers the ofi transport is one file, which says so when it is opened.
HAVE_LIBFABRIC := $(shell pkg-config --atleast-version=1.17 libfabric 2>/dev/null && echo 1)
$(if $(HAVE_LIBFABRIC)$(UNASKED),,$(info weft: libfabric 1.17 or later not found (make deps installs it), building \
	without the ofi transport))
OFI_ABSENT := transport/ofi/absent.c
OFI_LEFT_OUT := $(if $(HAVE_LIBFABRIC),$(OFI_ABSENT),$(filter-out $(OFI_ABSENT),$(wildcard transport/ofi/*.c)))
LIB_SOURCES := $(filter-out $(OFI_LEFT_OUT),$(LIB_SOURCES))
# Without rdma-core's headers so is the verbs transport. The library itself is loaded when it is needed.
HAVE_VERBS := $(shell pkg-config --atleast-version=1.11 libibverbs 2>/dev/null && echo 1)
$(if $(HAVE_VERBS)$(UNASKED),,$(info weft: libibverbs of rdma-core 32 or later not found (make deps installs it), building \
	without the verbs transport))
VERBS_ABSENT := transport/verbs/absent.c
VERBS_LEFT_OUT := $(if $(HAVE_VERBS),$(VERBS_ABSENT),$(filter-out $(VERBS_ABSENT),$(wildcard transport/verbs/*.c)))
LIB_SOURCES := $(filter-out $(VERBS_LEFT_OUT),$(LIB_SOURCES))
# Without PMIx's headers its launchers are known, but not understood.
HAVE_PMIX := $(shell pkg-config --exists pmix 2>/dev/null && echo 1)
$(if $(HAVE_PMIX)$(UNASKED),,$(info weft: PMIx not found (make deps installs it), building without it))
LIB_SOURCES := $(filter-out $(if $(HAVE_PMIX),comm/pmix_absent.c,comm/pmix.c),$(LIB_SOURCES))
EXTRA_pmix := $(shell pkg-config --cflags-only-I pmix 2>/dev/null)
# Without nvcc the library has no kernels for CUDA devices.
include devmem/cuda/kernels.mk
$(if $(HAVE_NVCC)$(UNASKED),,$(info weft: $(if $(strip $(NVCC)),nvcc 11.8 or later not found,NVCC is empty), building without CUDA \
	kernels))
LIB_SOURCES := $(filter-out devmem/cuda/kernel_image$(if $(HAVE_NVCC),_absent).c,$(LIB_SOURCES))
objects = $(patsubst %.c,$(BUILD)/%.o,$(1))
LIB_OBJECTS := $(call objects,$(LIB_SOURCES))
PERF_OBJECTS := $(call objects,$(wildcard perf/*.c perf/device/*.c))
# What only the tool needs: its outputs.
TOPO_OBJECTS := $(call objects,$(wildcard topo/weft-topo.c topo/tool/*.c))
SUPPORT_OBJECTS := $(call objects,$(filter-out $(if $(HAVE_LIBFABRIC),,%/ofi_fake.c),$(wildcard tests/support/*.c)))
MICRO := $(patsubst %.c,$(BUILD)/%,$(filter-out $(if $(HAVE_VERBS),,perf/micro/rails.c),$(wildcard perf/micro/*.c)))
# LEFT_OUT names test programs, without .c, that this build does without.
TESTS := $(patsubst %.c,$(BUILD)/%,$(filter-out $(LEFT_OUT:=.c),$(wildcard tests/unit/test_*.c tests/plan/test_*.c \
	tests/conform/test_*.c tests/integration/test_*.c tests/faults/test_*.c tests/topo/test_*.c)))
# The verbs transport on a device in memory.
RDMA_FAKE_TESTS := $(patsubst %,$(BUILD)/tests/%,conform/test_verbs_fake unit/test_verbs_link unit/test_verbs_failover \
	unit/test_verbs_rails unit/test_verbs_room unit/test_verbs_soft unit/test_verbs_leave unit/test_verbs_errors \
	unit/test_device_regions unit/test_device_nic unit/test_exec_nic integration/test_rails)
TESTS := $(filter-out $(if $(HAVE_VERBS),,$(BUILD)/tests/unit/test_verbs_% $(RDMA_FAKE_TESTS)) \
	$(if $(HAVE_LIBFABRIC),,$(BUILD)/tests/unit/test_ofi_%),$(TESTS))
# Tests that need an RDMA device, and programs that scripts among them run; without libibverbs's headers only scripts.
RDMA_PROGRAMS := $(if $(HAVE_VERBS),$(patsubst %.c,$(BUILD)/%,$(wildcard tests/rdma/*.c tests/conform/test_verbs.c \
	tests/conform/test_ofi_verbs.c)))
RDMA_TESTS := $(foreach program,$(RDMA_PROGRAMS),$(if $(filter test_%,$(notdir $(program))),$(program))) \
	$(wildcard tests/rdma/test_*.sh)
# What runs on a machine with an NVIDIA GPU: tests/gpu/run.sh.
GPU_PROGRAMS := $(patsubst %,$(BUILD)/tests/gpu/%,cuda_record test_devices_gpu test_calls_gpu gate_probe)
LONG := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/long/*.c))
SCRIPTS := $(wildcard tests/integration/test_*.sh tests/topo/test_*.sh)
CHECKS := $(wildcard tests/checks/check_*.sh)
FUZZERS := $(filter-out $(if $(HAVE_VERBS),,$(BUILD)/tests/fuzz/fuzz_verbs_%) $(if $(HAVE_LIBFABRIC),,$(BUILD)/tests/fuzz/fuzz_ofi_%),\
	$(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c)))
PROGRAMS := $(if $(wildcard algos/weft-plan.c),$(BUILD)/weft-plan) $(if $(PERF_OBJECTS),$(BUILD)/weft-perf) \
	$(if $(wildcard topo/weft-topo.c),$(BUILD)/weft-topo)

.DEFAULT_GOAL := all
.PHONY: all lib tests deps demo check check-programs check-long check-rdma check-rdma-programs check-layers check-style check-abi \
	abi-baseline asan tsan fuzz fuzzers install uninstall clean perf-peers perf-rdma topo-report pictures print-libs \
	rdma-tests check-gpu perf-gpu gpu-kit gpu-programs check-torch perf-torch help
.SECONDARY:
.DELETE_ON_ERROR:

all: $(BUILD)/libweft.a $(BUILD)/libweft.so $(PROGRAMS) $(MICRO)
	@:

lib: $(BUILD)/libweft.a

tests: all $(TESTS) $(GPU_PROGRAMS)
	@:

$(BUILD)/%.o: %.c Makefile
	$(call say,CC,$@)mkdir -p $(@D) && $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(EXTRA_$(notdir $*)) -c $< -o $@

$(BUILD)/libweft.a: $(LIB_OBJECTS)
	$(call say,AR,$@)rm -f $@ && ar rcs $@ $^

$(BUILD)/libweft.so.$(VERSION): $(LIB_OBJECTS) libweft.map
	$(call say,LD,$@)$(CC) -shared $(LDFLAGS_ALL) -Wl,-soname,$(SONAME) -Wl,--version-script=libweft.map \
		$(if $(MODE_FLAGS),,-Wl,-z,defs) $(LIB_OBJECTS) $(LIBS) -o $@

$(BUILD)/libweft.so: $(BUILD)/libweft.so.$(VERSION)
	$(Q)ln -sf $(<F) $(BUILD)/$(SONAME) && ln -sf $(SONAME) $@

$(BUILD)/weft-plan: $(BUILD)/algos/weft-plan.o $(BUILD)/libweft.a
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $^ $(LIBS) -o $@

$(BUILD)/weft-perf: $(PERF_OBJECTS) $(BUILD)/libweft.a
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $^ $(LIBS) -ljansson -o $@

$(BUILD)/weft-topo: $(TOPO_OBJECTS) $(BUILD)/libweft.a
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $^ $(LIBS) -ljansson -o $@

$(BUILD)/perf/micro/executor: $(BUILD)/tests/support/exec_world.o $(BUILD)/tests/support/exec_liar.o
$(BUILD)/perf/micro/transport: $(BUILD)/tests/support/watcher.o
$(BUILD)/perf/micro/ofi $(BUILD)/perf/micro/verbs: $(BUILD)/tests/support/letters.o
$(BUILD)/perf/micro/rails: $(BUILD)/tests/support/letters.o $(call objects,$(wildcard tests/fake/rdma_fake*.c))
$(BUILD)/perf/micro/start: $(BUILD)/tests/support/attack.o $(BUILD)/tests/support/ranks.o
$(BUILD)/perf/micro/checks: $(BUILD)/tests/support/ranks.o

$(BUILD)/perf/micro/%: $(BUILD)/perf/micro/%.o $(BUILD)/libweft.a
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $(filter %.o,$^) $(filter %.a,$^) $(LIBS) -o $@

$(BUILD)/tests/fuzz/fuzz_ofi_frame: $(BUILD)/tests/support/ofi_fake.o
$(BUILD)/tests/fuzz/fuzz_verbs_link: $(call objects,$(wildcard tests/fake/rdma_fake*.c))
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/libweft.a
	$(call say,LD,$@)$(CC) -fsanitize=fuzzer $(LDFLAGS_ALL) $(filter %.o,$^) $(filter %.a,$^) $(LIBS) -o $@
$(BUILD)/tests/fuzz/fuzz_cuda_handle: $(BUILD)/tests/support/cuda_scene.o
$(BUILD)/tests/fuzz/fuzz_perf_options: $(BUILD)/perf/options.o $(BUILD)/perf/flags.o
$(BUILD)/tests/fuzz/fuzz_topo_options: $(BUILD)/topo/tool/options.o $(BUILD)/topo/tool/say.o

# A libfabric provider that demands everything; libfabric finds it by FI_PROVIDER_PATH.
TEST_PROVIDER := $(BUILD)/tests/provider/libwefttest-fi.so
$(TEST_PROVIDER): $(call objects,$(wildcard tests/provider/*.c))
	$(call say,LD,$@)$(CC) -shared $(LDFLAGS_ALL) $^ -lfabric $(LIBS) -o $@
$(BUILD)/tests/conform/test_ofi_demanding $(BUILD)/tests/integration/test_idle_ranks: | $(if $(HAVE_LIBFABRIC),$(TEST_PROVIDER))

# Stand-ins for drivers' libraries, with the real ones' names inside.
TEST_DRIVERS := $(addprefix $(BUILD)/tests/drivers/,libnvidia-ml.so.1 libze_loader.so.1 old/libze_loader.so.1 \
	libcuda.so.1 kernels/libcuda.so.1)
$(BUILD)/tests/drivers/libnvidia-ml.so.1: $(BUILD)/tests/drivers/nvml.o
$(BUILD)/tests/drivers/libze_loader.so.1: $(BUILD)/tests/drivers/sysman.o
$(BUILD)/tests/drivers/old/libze_loader.so.1: $(BUILD)/tests/drivers/sysman_old.o
$(BUILD)/tests/drivers/libcuda.so.1: $(call objects,$(wildcard tests/drivers/cuda_fake_*.c))
$(BUILD)/tests/drivers/kernels/libcuda.so.1: $(call objects,$(wildcard tests/drivers/cuda_fake_*.c) \
	tests/drivers/cuda_kernels.c devmem/cuda/kernels.c devmem/types.c)
$(TEST_DRIVERS):
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) -shared $(LDFLAGS_ALL) -Wl,-soname,$(@F) $^ -o $@
CUDA_RANK_TESTS := $(patsubst tests/%.c,%,$(wildcard tests/integration/test_*_cuda.c))
CUDA_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_cuda_*.c))
CUDA_TESTS += $(patsubst %,$(BUILD)/tests/%,faults/test_cuda fuzz/fuzz_cuda_handle conform/test_devices_cuda \
	unit/test_device_share unit/test_device_regions $(CUDA_RANK_TESTS))
$(BUILD)/tests/topo/test_drivers $(BUILD)/tests/faults/test_drivers $(CUDA_TESTS): | $(TEST_DRIVERS)
# What a real driver answers, for tests/integration/test_cuda_record.sh. Goes to other machines alone.
CUDA_RECORD := $(BUILD)/tests/gpu/cuda_record
$(CUDA_RECORD): $(CUDA_RECORD).o | $(TEST_DRIVERS)
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $^ -ldl -o $@
$(addprefix $(BUILD)/tests/gpu/,test_devices_gpu test_calls_gpu gate_probe): $(BUILD)/tests/gpu/streams.o
# Libraries and kernels are what the test says: none of this machine's.
$(BUILD)/tests/unit/test_cuda_load: LDFLAGS_ALL += -Wl,--wrap=dlopen,--wrap=dlsym
$(BUILD)/tests/unit/test_cuda_reduce $(BUILD)/tests/conform/test_devices_cuda $(addprefix $(BUILD)/tests/,$(CUDA_RANK_TESTS)): \
	private LDFLAGS_ALL += -Wl,--wrap=weft_kernel_image
# cuda.h, where there is one, to compare with.
CUDA_INCLUDE := $(firstword $(wildcard /usr/local/cuda*/include))
EXTRA_test_cuda_abi := $(if $(CUDA_INCLUDE),-isystem $(CUDA_INCLUDE))

# Kinds of devices that test the loading of plug-ins, good ones and bad ones; built as others build theirs.
TEST_PLUGINS := $(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/plugins/*.c))
$(BUILD)/tests/plugins/%.so: tests/plugins/%.c tests/plugins/kind.h include/weft/device.h
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) -Iinclude $(CFLAGS_ALL) -fvisibility=default -shared $(LDFLAGS_ALL) $< -o $@
$(BUILD)/tests/unit/test_devices $(BUILD)/tests/faults/test_devices $(BUILD)/tests/integration/test_device_errors \
	$(BUILD)/tests/integration/test_device_late: | $(TEST_PLUGINS)

# The simulated device, built as a vendor would build a plug-in: from include/weft/ alone.
DEVICE_SIM := $(BUILD)/examples/device-sim/device-sim.so
$(DEVICE_SIM): $(wildcard examples/device-sim/*.[ch]) include/weft/device.h include/weft/weft.h
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) -D_GNU_SOURCE -Iinclude $(CFLAGS_ALL) -shared $(LDFLAGS_ALL) \
		$(if $(MODE_FLAGS),,-Wl,-z,defs) $(filter %.c,$^) -lpthread -lm -o $@
SIM_TESTS := conform/test_devices \
	unit/test_device_share \
	unit/test_device_regions \
	unit/test_device_nic \
	unit/test_exec_device \
	unit/test_exec_device_fails \
	unit/test_exec_direct \
	unit/test_exec_programs \
	unit/test_exec_program_fails \
	unit/test_lane \
	unit/test_loan \
	unit/test_exec_nic \
	unit/test_p2p_copy \
	unit/test_device_memory \
	integration/test_device_calls \
	integration/test_device_errors \
	integration/test_device_late \
	integration/test_device_programs \
	integration/test_idle_ranks \
	integration/test_p2p_device \
	integration/test_streams
$(addprefix $(BUILD)/tests/,$(SIM_TESTS)): | $(DEVICE_SIM)

# Ranks that die at chosen points: the linker puts tests/kill/ in front of what tests/kill/wraps names.
KILL_OBJECTS := $(call objects,$(wildcard tests/kill/*.c))
$(BUILD)/tests/integration/test_kill: $(KILL_OBJECTS) tests/kill/wraps
$(BUILD)/tests/integration/test_kill: LDFLAGS_ALL += -Wl,@tests/kill/wraps
# The verbs transport on a device in memory, which stands in for device.c and load.c.
RDMA_FAKE_OBJECTS := $(call objects,$(wildcard tests/fake/*.c))
$(RDMA_FAKE_TESTS): $(RDMA_FAKE_OBJECTS)
$(BUILD)/tests/unit/test_device_regions: private LDFLAGS_ALL += -Wl,--wrap=calloc

# Links over a transport that the test puts in place of verbs.
$(BUILD)/tests/integration/test_links $(BUILD)/tests/integration/test_ports: LDFLAGS_ALL += -Wl,--wrap=weft_transport_find

$(BUILD)/tests/rdma/%: LIBS += -libverbs
$(BUILD)/tests/plan/test_weft_plan $(BUILD)/tests/topo/test_weft_topo_json: LIBS += -ljansson
# The writers of pictures, which the library does not have; their memory runs out in the test.
$(BUILD)/tests/topo/test_draw $(BUILD)/tests/topo/test_dot: $(call objects,$(wildcard topo/tool/draw*.c) \
	topo/tool/svg.c topo/tool/dot.c topo/tool/say.c tests/topo/picture.c tests/topo/sketch.c)
$(BUILD)/tests/topo/test_draw: LDFLAGS_ALL += -Wl,--wrap=calloc,--wrap=realloc
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(SUPPORT_OBJECTS) $(BUILD)/libweft.a
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $(TEST_LINK) $(filter %.o,$^) $(filter %.a,$^) -lcmocka $(LIBS) -o $@

# The library once more, its calls outwards renamed so that the fault injector can let each of them fail.
FAULT_SYMBOLS := tests/faults/symbols.txt
FAULT_OBJECTS := $(call objects,$(filter-out tests/faults/test_%,$(wildcard tests/faults/*.c)))
$(BUILD)/tests/faults/libweft.a: $(BUILD)/libweft.a $(FAULT_SYMBOLS)
	$(Q)mkdir -p $(@D) && awk '$$1 == "inject" || $$1 == "watch" { print $$2, "fault_" $$2 }' $(FAULT_SYMBOLS) >$@.map
	$(call say,OBJCOPY,$@)objcopy --redefine-syms=$@.map $< $@

$(BUILD)/tests/faults/test_%: $(BUILD)/tests/faults/test_%.o $(FAULT_OBJECTS) $(SUPPORT_OBJECTS) \
		$(BUILD)/tests/faults/libweft.a
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $(TEST_LINK) $^ -lcmocka $(LIBS) -o $@

# demo and check build with every processor unless told otherwise.
JOBS = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null))

# --- what a fresh machine needs; quick and silent when everything is there

deps:
	$(Q)tests/scripts/deps.sh

demo: deps
	$(Q)$(MAKE) $(JOBS) --no-print-directory all
	$(Q)BUILD=$(BUILD) tests/scripts/demo.sh

# --- tests

check: deps
	$(Q)$(MAKE) $(JOBS) --no-print-directory tests
	$(Q)BUILD=$(BUILD) CC="$(CC)" MAKE="$(MAKE)" tests/run.sh $(CHECKS) $(TESTS) $(SCRIPTS)

check-programs: tests
	$(Q)BUILD=$(BUILD) tests/run.sh $(TESTS) $(SCRIPTS)

check-layers check-style: check-%:
	$(Q)tests/checks/check_$*.sh

check-abi: $(BUILD)/libweft.so
	$(Q)BUILD=$(BUILD) tests/checks/check_abi.sh

abi-baseline: $(BUILD)/libweft.so
	$(Q)BUILD=$(BUILD) tests/checks/check_abi.sh --refresh

# The same programs built with sanitizers (address and undefined; thread), each build in its own folder. Options and
# the suppressions, which name only other people's code, are in tests/scripts/sanitize.sh.
asan tsan:
	$(Q)CC="$(CC)" MAKE="$(MAKE)" BUILD=$(BUILD) tests/scripts/sanitize.sh $@

fuzz:
	$(Q)MAKE="$(MAKE)" BUILD=$(BUILD) FUZZ_SECONDS=$(FUZZ_SECONDS) tests/scripts/fuzz.sh

fuzzers: $(FUZZERS)

check-long: deps
	$(Q)MAKE="$(MAKE)" tests/scripts/check-long.sh

# RDMA_DEVICE names devices of this system; without it the tests run in virtual machines that have some: tests/vm/.
check-rdma: deps
	$(Q)tests/scripts/deps.sh rdma
	$(Q)$(MAKE) $(JOBS) --no-print-directory rdma-tests
	$(Q)$(MAKE) --no-print-directory check-rdma-programs

rdma-tests: all $(RDMA_PROGRAMS)
	@:

check-rdma-programs: rdma-tests
	$(if $(HAVE_VERBS),,@echo "SKIP: the programs of tests/rdma are not built without libibverbs-dev")
	$(Q)BUILD=$(BUILD) RDMA_DEVICE=$(RDMA_DEVICE) tests/vm/check.sh $(RDMA_TESTS)

# The PyTorch backend, in a virtual environment in $(BUILD)/torch with a torch of its own: TORCH_VERSION (2.13.0).
check-torch: deps
	$(Q)$(MAKE) $(JOBS) --no-print-directory lib
	$(Q)BUILD=$(BUILD) tests/torch/check.sh

perf-torch: deps
	$(Q)$(MAKE) $(JOBS) --no-print-directory lib
	$(Q)BUILD=$(BUILD) perf/torch/run.sh

perf-peers: deps
	$(Q)$(MAKE) $(JOBS) --no-print-directory all
	$(Q)BUILD=$(BUILD) CC="$(CC)" MAKE="$(MAKE)" perf/peers/run.sh

# On a machine with an NVIDIA GPU; elsewhere they say why nothing ran. A kit takes the programs, with the libraries that they need,
# to such a machine.
check-gpu perf-gpu: deps
	$(Q)$(MAKE) $(JOBS) --no-print-directory gpu-programs
	$(Q)BUILD=$(BUILD) tests/gpu/run.sh $(@:-gpu=)

gpu-kit: deps
	$(Q)$(MAKE) $(JOBS) --no-print-directory gpu-programs
	$(Q)BUILD=$(BUILD) tests/gpu/kit.sh

gpu-programs: $(BUILD)/weft-perf $(BUILD)/perf/micro/program $(GPU_PROGRAMS)
	@:

# Those of the documents, from texts.
pictures: $(BUILD)/weft-topo
	$(Q)BUILD=$(BUILD) tests/scripts/pictures.sh

perf-rdma: deps
	$(Q)tests/scripts/deps.sh rdma
	$(Q)$(MAKE) $(JOBS) --no-print-directory all
	$(Q)BUILD=$(BUILD) RDMA_DEVICE=$(RDMA_DEVICE) perf/rdma/run.sh

# What the order of ranks is worth: written to docs/. TOPOLOGIES: a folder of real ones.
TOPOLOGIES ?= $(wildcard ../shared/data/topologies)
topo-report: deps
	$(Q)$(MAKE) $(JOBS) --no-print-directory all
	$(Q)$(BUILD)/perf/micro/topo_report $(TOPOLOGIES) >$(BUILD)/topology-report.md
	$(Q)mv $(BUILD)/topology-report.md docs/ && echo "written: docs/topology-report.md"

# --- installing

# Libraries that a static link needs beside libweft.a.
print-libs:
	@echo $(PRIVATE_LIBS)

MANPAGES = $(wildcard docs/man/*.[0-9])

define PC_FILE
prefix=$(PREFIX)
libdir=$(LIBDIR)
includedir=$(INCLUDEDIR)

Name: weft
Description: Collectives between ranks over shared memory, RDMA and libfabric
Version: $(VERSION)
Cflags: -I$${includedir}
Libs: -L$${libdir} -lweft
Libs.private: $(PRIVATE_LIBS)
endef
export PC_FILE

install: all
	$(Q)install -d $(DESTDIR)$(INCLUDEDIR)/weft $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/bin
	$(Q)install -m 644 include/weft/*.h $(DESTDIR)$(INCLUDEDIR)/weft/
	$(Q)install -m 644 $(BUILD)/libweft.a $(DESTDIR)$(LIBDIR)/
	$(Q)install -m 755 $(BUILD)/libweft.so.$(VERSION) $(DESTDIR)$(LIBDIR)/
	$(Q)ln -sf libweft.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(SONAME)
	$(Q)ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libweft.so
	$(Q)printf '%s\n' "$$PC_FILE" >$(DESTDIR)$(LIBDIR)/pkgconfig/weft.pc
	$(Q)for f in $(PROGRAMS); do install -m 755 $$f $(DESTDIR)$(PREFIX)/bin/ || exit 1; done
	$(Q)for f in $(MANPAGES); do install -D -m 644 $$f $(DESTDIR)$(MANDIR)/man$${f##*.}/$${f##*/} || exit 1; done

uninstall:
	$(Q)rm -f $(addprefix $(DESTDIR)$(INCLUDEDIR)/weft/,$(notdir $(wildcard include/weft/*.h)))
	$(Q)rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,libweft.a libweft.so $(SONAME) libweft.so.$(VERSION) pkgconfig/weft.pc)
	$(Q)rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,weft-plan weft-perf weft-topo)
	$(Q)rm -f $(foreach page,$(MANPAGES),$(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))
	$(Q)rmdir $(DESTDIR)$(INCLUDEDIR)/weft 2>/dev/null || true

clean:
	rm -rf $(BUILD)

help:
	@echo "all           library and programs in $(BUILD)/"
	@echo "lib tests     the static library alone; everything that check runs"
	@echo "deps          install what is missing (Debian, Ubuntu)"
	@echo "demo          checked allreduce between 4 local processes, over shared memory and over TCP"
	@echo "check         every test; check-layers, check-style, check-abi: one of its parts"
	@echo "check-programs    the test programs and scripts, without installing anything"
	@echo "asan tsan     the tests under sanitizers: address and undefined, thread"
	@echo "fuzz          each fuzz target for FUZZ_SECONDS ($(FUZZ_SECONDS))"
	@echo "fuzzers       the fuzz targets alone, with clang"
	@echo "check-long    check with WEFT_LONG=1, then sanitizers and fuzz"
	@echo "check-rdma    tests over RDMA, in a virtual machine or with RDMA_DEVICE=mlx5_0"
	@echo "rdma-tests, check-rdma-programs    its programs; the same run, without installing anything"
	@echo "check-gpu, perf-gpu    what needs an NVIDIA GPU; gpu-kit: packs it into $(BUILD)/gpu-kit for another machine"
	@echo "check-torch   the PyTorch backend's tests, with a torch of TORCH_VERSION (2.13.0) in $(BUILD)/torch"
	@echo "perf-torch    allreduce and training steps on weft and on gloo, in one run"
	@echo "perf-peers    the sweeps beside Open MPI, MPICH and Gloo"
	@echo "perf-rdma     messages and allreduce beside perftest, in a virtual machine or with RDMA_DEVICE=mlx5_0"
	@echo "pictures      those of docs/topology.md, by weft-topo"
	@echo "topo-report   what the order of ranks is worth, in figures: docs/topology-report.md"
	@echo "install, uninstall    with DESTDIR, PREFIX ($(PREFIX)), LIBDIR, INCLUDEDIR, MANDIR"
	@echo "print-libs    what a program linked with libweft.a needs beside it"
	@echo "abi-baseline  accept the present ABI: rewrite tests/abi/"
	@echo "clean         remove $(BUILD)/"

-include $(patsubst %.o,%.d,$(LIB_OBJECTS) $(PERF_OBJECTS) $(TOPO_OBJECTS) $(SUPPORT_OBJECTS) $(RDMA_FAKE_OBJECTS) \
	$(KILL_OBJECTS) $(FAULT_OBJECTS) $(call objects,$(MAINS) $(wildcard tests/provider/*.c tests/drivers/*.c tests/gpu/*.c)) \
	$(patsubst %,%.o,$(TESTS) $(RDMA_PROGRAMS) $(LONG) $(MICRO) $(FUZZERS)))
