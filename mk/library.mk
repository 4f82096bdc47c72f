# SPDX-License-Identifier: Apache-2.0
# libweft.a and libweft.so.

# Version and soname follow include/weft/weft.h. While the major version is 0 each minor one may break programs.
VERSION := $(shell awk '$$2 ~ /^WEFT_VERSION_(MAJOR|MINOR|PATCH)$$/ { v = v dot $$3; dot = "." } END { print v }' include/weft/weft.h)
VERSION_MAJOR := $(firstword $(subst ., ,$(VERSION)))
VERSION_MINOR := $(word 2,$(subst ., ,$(VERSION)))
ABI_VERSION := $(VERSION_MAJOR)$(if $(filter 0,$(VERSION_MAJOR)),.$(VERSION_MINOR))
SONAME := libweft.so.$(ABI_VERSION)

# One kernel source, compiled once per instruction set, with VECTOR_FLAGS for all but the portable one; off x86-64 the last two
# objects are empty.
ifneq ($(filter x86_64%,$(shell $(CC) -dumpmachine 2>/dev/null)),)
EXTRA_reduce_avx2 := -mavx2 -mf16c $(VECTOR_FLAGS)
EXTRA_reduce_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mbmi2 $(VECTOR_FLAGS)
endif
# These were a third of the time of a build. Full debug information of so many small functions in each other
# takes as long as compiling them. They have lines.
LINES_ONLY := $(if $(filter -g,$(O)),-g1)
$(foreach name,reduce_portable reduce_avx2 reduce_avx512 cuda_kernels ze_kernels,$(eval EXTRA_$(name) += $(LINES_ONLY)))

# A part's files, and the one that stands there without it and says so.
FILES_verbs := $(wildcard transport/verbs/*.c)
ABSENT_verbs := transport/verbs/absent.c
FILES_ofi := $(wildcard transport/ofi/*.c)
ABSENT_ofi := transport/ofi/absent.c
FILES_pmix := comm/boot/pmix.c
ABSENT_pmix := comm/boot/pmix_absent.c
EXTRA_pmix := $(CFLAGS_pmix)
FILES_cuda := devmem/cuda/kernel_image.c
ABSENT_cuda := devmem/cuda/kernel_image_absent.c
FILES_ze := $(wildcard devmem/ze/*.c)
ABSENT_ze := devmem/ze/absent.c
FILES_spirv := devmem/ze/module_image.c
ABSENT_spirv := devmem/ze/module_image_absent.c
FILES_hwloc := $(wildcard topo/discover/hwloc*.c)
ABSENT_hwloc := topo/discover/hwloc_absent.c
LEFT_OUT_SOURCES := $(foreach part,$(PARTS),$(if $(call have,$(part)),$(ABSENT_$(part)),$(filter-out $(ABSENT_$(part)),$(FILES_$(part)))))
include devmem/cuda/kernels.mk devmem/ze/kernels.mk

# What lies in folders below algos/, topo/ and base/ is the library's or, in these, only tools and tests call it: libweft-tools.a.
TOOLS_ONLY := algos/proof topo/machines topo/discover topo/report base/tool
MAINS := $(wildcard algos/proof/weft-plan*.c) topo/tool/weft-topo.c perf/weft-perf.c
LIB_SOURCES := $(filter-out $(LEFT_OUT_SOURCES),$(wildcard base/*.c base/net/*.c algos/*.c transport/*.c transport/*/*.c devmem/*.c devmem/*/*.c \
	topo/*.c topo/graph/*.c topo/files/*.c topo/live/*.c comm/*/*.c comm/*/*/*.c))
TOOLS_LIB_SOURCES := $(filter-out $(MAINS) $(LEFT_OUT_SOURCES),$(wildcard $(addsuffix /*.c,$(TOOLS_ONLY))))
LIB_OBJECTS := $(call objects,$(LIB_SOURCES))
TOOLS_LIB_OBJECTS := $(call objects,$(TOOLS_LIB_SOURCES))
# What tools and tests are linked with, in this order: all names of the library are there.
ARCHIVES := $(BUILD)/libweft-tools.a $(BUILD)/libweft-parts.a

#: lib           libweft.a and libweft.so; needs nothing that only tools or tests need
#: lib-static, lib-shared    one of them
.PHONY: lib lib-static lib-shared
lib: lib-static lib-shared
lib-static: $(BUILD)/libweft.a
lib-shared: $(BUILD)/libweft.so

$(BUILD)/%.o: %.c $(BUILD)/config
	$(call say,CC,$@)mkdir -p $(@D) && $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(EXTRA_$(notdir $*)) -c $< -o $@

# Of one compilation come two objects: the plain one, which tests and most tools are linked with, and under whole/ one that holds besides what
# link-time optimisation reads. Kernels are plain alone, whatever CFLAGS say: each is compiled for an instruction set, and called by a pointer. So
# is what holds assembler. Without a seed of its own an object would have other names in it every time.
WHOLE := $(and $(filter auto yes,$(WITH_LTO)),$(HAVE_lto))
PLAIN_ALWAYS := $(call objects,$(addprefix devmem/,reduce_portable.c reduce_avx2.c reduce_avx512.c cuda/kernel_image.c ze/module_image.c))
$(foreach object,$(PLAIN_ALWAYS),$(eval EXTRA_$(basename $(notdir $(object))) += -fno-lto))
SPLIT_OBJECTS := $(if $(WHOLE),$(filter-out $(PLAIN_ALWAYS),$(LIB_OBJECTS)))
WHOLE_OBJECTS := $(patsubst $(BUILD)/%,$(BUILD)/whole/%,$(SPLIT_OBJECTS)) $(filter-out $(SPLIT_OBJECTS),$(LIB_OBJECTS))
OBJCOPY ?= $(or $(shell $(CC) -print-prog-name=objcopy),objcopy)

$(BUILD)/whole/%.o: %.c $(BUILD)/config
	$(call say,CC,$@)mkdir -p $(@D) && $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(EXTRA_$(notdir $*)) -flto -ffat-lto-objects -frandom-seed=$< -c $< -o $@
$(SPLIT_OBJECTS): $(BUILD)/%.o: $(BUILD)/whole/%.o
	$(Q)mkdir -p $(@D) && $(OBJCOPY) -R '.gnu.lto_*' -R '.gnu.debuglto_*' $< $@

$(BUILD)/libweft-parts.a: $(LIB_OBJECTS)
$(BUILD)/libweft-tools.a: $(TOOLS_LIB_OBJECTS)
$(TOOLS_LIB_OBJECTS): | need-expat
$(ARCHIVES): $(BUILD)/parts
	$(call say,AR,$@)rm -f $@ && ar qcs $@ $(filter %.o,$^)

# What is shipped is one object, optimised whole where the compiler can: a small message passes a dozen files, and takes about a tenth
# less without calls between them (docs/performance.md). The shared library is made of it, the archive, and weft-perf, which measures
# what is shipped.
$(BUILD)/weft-whole.o: $(WHOLE_OBJECTS) $(BUILD)/parts
	$(call say,LD,$@)$(CC) $(CFLAGS_BUILD) $(filter-out -Wl$(comma)%,$(CFLAGS)) \
		$(if $(WHOLE),-flto=auto -flinker-output=nolto-rel) $(if $(filter no,$(WITH_LTO)),-fno-lto) -r -nostdlib $(WHOLE_OBJECTS) -o $@

# For others it has no names but the public ones: a program's own functions may have any others.
$(BUILD)/libweft.a: $(BUILD)/weft-whole.o
	$(call say,AR,$@)rm -f $@ && $(OBJCOPY) --localize-hidden $< $(BUILD)/weft.o && ar qcs $@ $(BUILD)/weft.o

$(BUILD)/libweft.so.$(VERSION): $(BUILD)/weft-whole.o libweft.map
	$(call say,LD,$@)$(CC) -shared $(LDFLAGS_ALL) -Wl,-soname,$(SONAME) -Wl,--version-script=libweft.map \
		$(if $(MODE_FLAGS),,-Wl,-z,defs) $< $(LIBS) -o $@

$(BUILD)/libweft.so: $(BUILD)/libweft.so.$(VERSION)
	$(Q)ln -sf $(<F) $(BUILD)/$(SONAME) && ln -sf $(SONAME) $@
