# SPDX-License-Identifier: Apache-2.0
# Test programs, fuzz targets, and what they load. Folders say what a program is; its own line "build:" says the rest (mk/sources.mk).

# Where tests of `make check` stand: beside the rooms that they test, and what tests all of it from outside.
TEST_FOLDERS := $(addprefix tests/,base topo algos devmem transport $(patsubst %,comm/%,boot drive regions exec p2p core form calls) \
	conform faults fuzz harness perf system)
# LEFT_OUT names test programs and scripts, without .c and .sh, that this build does without.
TEST_SOURCES := $(call buildable,$(filter-out $(LEFT_OUT:=.c),$(wildcard $(TEST_FOLDERS:%=%/test_*.c))))
TESTS := $(call programs,$(TEST_SOURCES))
# Tests that need an RDMA device, and programs that scripts among them run; without libibverbs's headers only scripts.
RDMA_SOURCES := $(if $(call have,verbs),$(foreach source,$(ALL_TEST_SOURCES),$(if $(filter tests/rdma/%,$(source))$(filter rdma,\
	$(BUILD_also_$(source:.c=))),$(source))))
RDMA_PROGRAMS := $(call programs,$(RDMA_SOURCES))
RDMA_TESTS := $(foreach program,$(RDMA_PROGRAMS),$(if $(filter test_%,$(notdir $(program))),$(program))) \
	$(wildcard tests/rdma/test_*.sh)
# Level Zero's tests, on the fake driver; without libze-dev's headers none.
ZE_TESTS := $(strip $(foreach source,$(TEST_SOURCES),$(if $(filter ze,$(BUILD_needs_$(source:.c=))),$(source:%.c=$(BUILD)/%))))
ZE_TESTS += $(if $(ZE_TESTS),$(addprefix tests/,system/test_ze_fallbacks.sh topo/test_topo_ze.sh perf/test_perf_memory.sh perf/test_perf_clock.sh))
# What runs on a machine with an NVIDIA GPU: tests/gpu/run.sh.
GPU_SOURCES := $(wildcard tests/gpu/*.c)
GPU_SOURCES := $(filter-out $(foreach source,$(GPU_SOURCES),$(BUILD_with_$(source:.c=))),$(GPU_SOURCES))
GPU_PROGRAMS := $(call programs,$(GPU_SOURCES))
LONG := $(call programs,$(wildcard tests/long/*.c))
FUZZERS := $(call programs,$(call buildable,$(wildcard tests/fuzz/fuzz_*.c)))
# Fuzz targets without libFuzzer, each with a main of ours: tests/fuzz/test_replay.sh.
REPLAYS := $(if $(filter tests/fuzz/test_replay,$(LEFT_OUT)),,$(subst /fuzz/fuzz_,/fuzz/replay_,$(FUZZERS)))
MICRO := $(call programs,$(call buildable,$(wildcard perf/micro/*.c)))
SCRIPTS := $(filter-out $(LEFT_OUT:=.sh),$(wildcard $(TEST_FOLDERS:%=%/test_*.sh)))
CHECKS := $(wildcard tests/checks/check_*.sh)
# What runs programs of other projects that nothing else needs.
TOOL_SCRIPTS := $(wildcard tests/tools/*.sh)
SUPPORT_OBJECTS := $(call objects,$(call buildable,$(wildcard tests/support/*.c tests/fakes/loop/*.c tests/fakes/ofi/*.c)))
TEST_OBJECTS := $(call objects,$(ALL_TEST_SOURCES) $(wildcard perf/micro/*.c))
# Most tests run for a moment: compiling them takes longer.
$(BUILD)/tests/%.o: private O := $(O:-O2=-O1)
# It is in the object.
$(BUILD)/tests/support/golden.o: tests/golden/errors.txt

#: tests         everything that check runs
.PHONY: tests
tests: all micro $(TESTS) $(GPU_PROGRAMS) $(RDMA_PROGRAMS) $(REPLAYS)

#: single-tests  the programs of rooms whose tests run in one process, and the tools that some of them run
.PHONY: single-tests
SINGLE := $(filter $(BUILD)/tests/base/% $(BUILD)/tests/algos/% $(BUILD)/tests/topo/%,$(TESTS))
single-tests: tools $(SINGLE)

#: micro         the micro-benchmarks, $(BUILD)/perf/micro/
.PHONY: micro
micro: $(MICRO)

# The compiler reads every source of the library, the tools and the tests, and makes no code.
#: warnings      what the compiler (CC=clang) says of every source; nothing is built
.PHONY: warnings
warnings: $(sort $(patsubst %.o,%.read,$(LIB_OBJECTS) $(TOOL_OBJECTS) $(call objects,$(call buildable,$(filter-out \
	$(if $(call have,verbs),,tests/rdma/%) $(if $(call have,ofi),,tests/fakes/provider/%),$(ALL_TEST_SOURCES) $(wildcard perf/micro/*.c))))))
$(BUILD)/%.read: %.c $(BUILD)/config
	$(call say,READ,$<)mkdir -p $(@D) && $(CC) $(filter-out $(DEPENDS),$(CPPFLAGS_ALL)) $(CFLAGS_ALL) $(EXTRA_$(notdir $*)) -fsyntax-only $< && touch $@

#: fuzzers       the fuzz targets alone, with clang; replays: those that make check plays, with any compiler
.PHONY: fuzzers replays
fuzzers: $(FUZZERS)
replays: $(REPLAYS)

.PHONY: rdma-tests gpu-programs
rdma-tests: all micro $(RDMA_PROGRAMS)
gpu-programs: $(BUILD)/weft-perf $(BUILD)/perf/micro/collective $(GPU_PROGRAMS)

$(addsuffix .o,$(TESTS) $(RDMA_PROGRAMS) $(LONG)) $(filter-out $(foreach name,$(MICRO) $(FUZZERS),$(call objects,$(call with_of,\
	$(name:$(BUILD)/%=%)))),$(SUPPORT_OBJECTS)): | need-cmocka

# --- what tests load

# A libfabric provider that demands everything; libfabric finds it by FI_PROVIDER_PATH.
TEST_PROVIDER := $(BUILD)/tests/fakes/provider/libwefttest-fi.so
$(TEST_PROVIDER): $(call objects,$(wildcard tests/fakes/provider/*.c))
	$(call say,LD,$@)$(CC) -shared $(LDFLAGS_ALL) $^ $(LIBS_ofi) $(LIBS) -o $@
BESIDE_provider := $(if $(call have,ofi),$(TEST_PROVIDER))

# Fakes of drivers' libraries, with the real ones' names inside.
TEST_DRIVERS := $(addprefix $(BUILD)/tests/fakes/drivers/,libnvidia-ml.so.1 libze_loader.so.1 old/libze_loader.so.1 \
	libcuda.so.1 kernels/libcuda.so.1)
$(BUILD)/tests/fakes/drivers/libnvidia-ml.so.1: $(BUILD)/tests/fakes/drivers/nvml.o
$(BUILD)/tests/fakes/drivers/libze_loader.so.1: $(BUILD)/tests/fakes/drivers/sysman.o
$(BUILD)/tests/fakes/drivers/old/libze_loader.so.1: $(BUILD)/tests/fakes/drivers/sysman_old.o
$(BUILD)/tests/fakes/drivers/libcuda.so.1: $(call objects,$(wildcard tests/fakes/drivers/cuda_fake_*.c))
$(BUILD)/tests/fakes/drivers/kernels/libcuda.so.1: $(call objects,$(wildcard tests/fakes/drivers/cuda_fake_*.c) \
	tests/fakes/drivers/cuda_kernels.c devmem/cuda/kernels.c devmem/kernels/pieces.c base/types.c)
$(TEST_DRIVERS):
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) -shared $(LDFLAGS_ALL) -Wl,-soname,$(@F) $^ -o $@
BESIDE_drivers := $(TEST_DRIVERS)
# A driver that Level Zero's own loader loads, where ZE_ENABLE_ALT_DRIVERS names it.
TEST_ZE := $(BUILD)/tests/fakes/ze/libweft_ze_fake.so
$(TEST_ZE): $(call objects,$(wildcard tests/fakes/ze/*.c))
	$(call say,LD,$@)$(CC) -shared $(LDFLAGS_ALL) $^ -lpthread -o $@
BESIDE_ze := $(if $(call have,ze),$(TEST_ZE))
# cuda.h, where there is one, to compare with.
CUDA_INCLUDE := $(firstword $(wildcard /usr/local/cuda*/include))
EXTRA_test_cuda_abi := $(if $(CUDA_INCLUDE),-isystem $(CUDA_INCLUDE))

# Kinds of devices that test the loading of plug-ins, good ones and bad ones; built as others build theirs.
TEST_PLUGINS := $(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/fakes/plugins/*.c))
$(BUILD)/tests/fakes/plugins/%.so: tests/fakes/plugins/%.c tests/fakes/plugins/kind.h include/weft/device.h $(BUILD)/config
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) -Iinclude $(CFLAGS_ALL) -fvisibility=default -shared $(LDFLAGS_ALL) $< -o $@
BESIDE_plugins := $(TEST_PLUGINS)

# The simulated device, built as a vendor would build a plug-in: from include/weft/ alone.
DEVICE_SIM := $(BUILD)/examples/device-sim/device-sim.so
$(DEVICE_SIM): $(wildcard examples/device-sim/*.[ch]) include/weft/device.h include/weft/weft.h $(BUILD)/config
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) -D_GNU_SOURCE -Iinclude $(CFLAGS_ALL) -shared $(LDFLAGS_ALL) \
		$(if $(MODE_FLAGS),,-Wl,-z,defs) $(filter %.c,$^) -lpthread -lm -o $@
BESIDE_device-sim := $(DEVICE_SIM)

.PHONY: ze-tests
ze-tests: all $(filter $(BUILD)/%,$(ZE_TESTS)) $(TEST_DRIVERS) $(DEVICE_SIM)

# --- linking

.SECONDEXPANSION:
$(BUILD)/perf/micro/%: $(BUILD)/perf/micro/%.o $$(call linked_of,perf/micro/$$*) $(ARCHIVES)
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $(filter %.o,$^) $(filter %.a,$^) $(TOOLS_LIBS) -o $@

$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $$(call linked_of,tests/fuzz/fuzz_$$*) $(ARCHIVES) \
		| $$(call beside_of,tests/fuzz/fuzz_$$*)
	$(call say,LD,$@)$(CC) -fsanitize=fuzzer $(LDFLAGS_ALL) $(filter %.o,$^) $(filter %.a,$^) $(TOOLS_LIBS) -o $@

$(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $$(call linked_of,tests/fuzz/fuzz_$$*) \
		$(ARCHIVES) | $$(call beside_of,tests/fuzz/fuzz_$$*)
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $(TEST_LINK) $(filter %.o,$^) $(filter %.a,$^) $(TOOLS_LIBS) -o $@

# A program that goes to other machines alone.
ALONE := $(call programs,$(foreach source,$(ALL_TEST_SOURCES),$(if $(BUILD_alone_$(source:.c=)),$(source))))
$(ALONE): $(BUILD)/%: $(BUILD)/%.o | $$(call beside_of,$$*)
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $^ -ldl -o $@

$(BUILD)/tests/rdma/%: TOOLS_LIBS += $(LIBS_verbs)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $$(call linked_of,tests/$$*) $(SUPPORT_OBJECTS) $$(call archives_of,tests/$$*) | $$(call beside_of,tests/$$*)
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $(call wraps_of,tests/$*) $(TEST_LINK) $(filter %.o,$^) $(filter %.a,$^) $(LIBS_cmocka) $(TOOLS_LIBS) \
		$(call libs_of,tests/$*) -o $@

# The library once more, its calls outwards renamed so that the fault injector can let each of them fail.
FAULT_SYMBOLS := tests/faults/symbols.txt
INJECTOR := tests/faults/inject.c tests/faults/every.c $(wildcard tests/faults/wrap_*.c)
FAULT_ARCHIVES := $(patsubst $(BUILD)/%,$(BUILD)/tests/faults/%,$(ARCHIVES))
$(FAULT_ARCHIVES): $(BUILD)/tests/faults/%: $(BUILD)/% $(FAULT_SYMBOLS)
	$(Q)mkdir -p $(@D) && awk '$$1 == "inject" || $$1 == "watch" { print $$2, "fault_" $$2 }' $(FAULT_SYMBOLS) >$@.map
	$(call say,OBJCOPY,$@)objcopy --redefine-syms=$@.map $< $@
