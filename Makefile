# weft: build, test, install. `make help` lists the targets. V=1 shows commands.

CC ?= gcc
BUILD ?= build
PREFIX ?= /usr/local
O ?= -O2 -g
MODE_FLAGS ?=

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wundef -Wvla -Werror
CPPFLAGS_ALL := -D_GNU_SOURCE -I. -Iinclude -MMD -MP $(shell pkg-config --cflags hwloc jansson 2>/dev/null) $(CPPFLAGS)
CFLAGS_ALL := -std=c11 $(O) -fPIC -fvisibility=hidden -ffp-contract=off $(WARN) $(MODE_FLAGS) $(CFLAGS)
LIBS := -ldl -lpthread -lm
LDFLAGS_ALL := $(MODE_FLAGS) $(LDFLAGS)
Q := $(if $(V),,@)
say = $(if $(V),,@echo "  $(1)	$(2)";)

# One kernel source, compiled once per instruction set; off x86-64 the last two objects are empty.
KERNEL_FLAGS := -O3
EXTRA_reduce_portable := $(KERNEL_FLAGS)
ifneq ($(filter x86_64%,$(shell $(CC) -dumpmachine)),)
EXTRA_reduce_avx2 := $(KERNEL_FLAGS) -mavx2
EXTRA_reduce_avx512 := $(KERNEL_FLAGS) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mbmi2
endif

LIB_SOURCES := $(filter-out algos/weft-plan.c topo/weft-topo.c,$(wildcard base/*.c algos/*.c transport/*.c \
	transport/*/*.c devmem/*.c topo/*.c comm/*.c))
LIB_OBJECTS := $(LIB_SOURCES:%.c=$(BUILD)/%.o)
PERF_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard perf/*.c))
MICRO := $(patsubst %.c,$(BUILD)/%,$(wildcard perf/micro/*.c))
SUPPORT_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c tests/plan/test_*.c tests/conform/test_*.c \
	tests/integration/test_*.c))
PROGRAMS := $(if $(wildcard algos/weft-plan.c),$(BUILD)/weft-plan) $(if $(PERF_OBJECTS),$(BUILD)/weft-perf)

.DEFAULT_GOAL := all
.PHONY: all check clean
.SECONDARY:

all: $(BUILD)/libweft.a $(BUILD)/libweft.so $(PROGRAMS) $(MICRO)

$(BUILD)/%.o: %.c Makefile
	$(call say,CC,$@)mkdir -p $(@D) && $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(EXTRA_$(notdir $*)) -c $< -o $@

$(BUILD)/libweft.a: $(LIB_OBJECTS)
	$(call say,AR,$@)rm -f $@ && ar rcs $@ $^

$(BUILD)/libweft.so: $(LIB_OBJECTS) libweft.map
	$(call say,LD,$@)$(CC) -shared $(LDFLAGS_ALL) -Wl,-soname,libweft.so.0 -Wl,--version-script=libweft.map -Wl,-z,defs \
		$(LIB_OBJECTS) $(LIBS) -o $@ && ln -sf libweft.so $(BUILD)/libweft.so.0

$(BUILD)/weft-plan: $(BUILD)/algos/weft-plan.o $(BUILD)/libweft.a
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $^ $(LIBS) -o $@

$(BUILD)/weft-perf: $(PERF_OBJECTS) $(BUILD)/libweft.a
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $^ $(LIBS) -ljansson -o $@

$(BUILD)/perf/micro/executor: $(BUILD)/tests/support/exec_world.o
$(BUILD)/perf/micro/%: $(BUILD)/perf/micro/%.o $(BUILD)/libweft.a
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $(filter %.o,$^) $(filter %.a,$^) $(LIBS) -o $@

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(SUPPORT_OBJECTS) $(BUILD)/libweft.a
	$(call say,LD,$@)$(CC) $(LDFLAGS_ALL) $^ -lcmocka $(LIBS) -o $@

check: all $(TESTS)
	$(Q)for t in $(TESTS); do echo "== $$t"; $$t || exit 1; done

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
