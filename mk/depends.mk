# SPDX-License-Identifier: Apache-2.0
# What weft builds with, each asked for on its own. HAVE_x, CFLAGS_x and LIBS_x say what was found; nothing fails while this is read:
# $(BUILD)/config says what is missing, and only to who builds.

# $(call ask,NAME,what pkg-config calls it and from which version on,Debian's package)
define ask_now
FOUND_$(1) := $(shell $(PKG_CONFIG) --cflags --libs '$(2)' 2>/dev/null && echo found)
HAVE_$(1) := $$(filter found,$$(FOUND_$(1)))
LIBS_$(1) := $$(filter -l% -L% -Wl%,$$(FOUND_$(1)))
CFLAGS_$(1) := $$(filter-out found $$(LIBS_$(1)),$$(FOUND_$(1)))
NAMED_$(1) := $(2), which is in $(3)
endef
ask = $(eval $(call ask_now,$(1),$(2),$(3)))

# Needed: by the library, by the tools, by the tests.
$(call ask,sodium,libsodium,libsodium-dev)
$(call ask,expat,expat,libexpat1-dev)
$(call ask,yaml,yaml-0.1,libyaml-dev)
$(call ask,jansson,jansson,libjansson-dev)
$(call ask,cmocka,cmocka,libcmocka-dev)
LIB_NEEDS := sodium yaml

# Parts that can be left out. The library links none of them: headers are all that it needs, and the rest is loaded by name at run
# time (base/runtime.h).
$(call ask,ofi,libfabric >= 1.17,libfabric-dev)
$(call ask,verbs,libibverbs >= 1.11,libibverbs-dev of rdma-core 32 or later)
$(call ask,pmix,pmix,libpmix-dev)
$(call ask,hwloc,hwloc >= 2.1,libhwloc-dev)
$(call ask,ze,libze_loader >= 1.8,libze-dev)
NVCC ?= nvcc
# nvcc preprocesses with the C++ compiler of the system, whatever CC is.
HAVE_cuda := $(shell command -v g++ >/dev/null && $(NVCC) --version 2>/dev/null | awk '/release/ { \
	sub(/.*release /, ""); split($$0, part, /[.,]/); if (part[1] * 100 + part[2] >= 1108) print "found" }')
NAMED_cuda := nvcc 11.8 or later (NVCC=/path/to/nvcc) with g++
# The kernels of Level Zero: clang makes LLVM's code of OpenCL C, and llvm-spirv of the same version SPIR-V of that. The first pair that is there.
SPIRV_TOOLS := $(shell for pair in $(if $(CLANG_SPIRV)$(LLVM_SPIRV),'$(CLANG_SPIRV) $(LLVM_SPIRV)',\
	$(foreach v,14 15 16 17 18 19 20 21,'clang-$(v) llvm-spirv-$(v)') 'clang llvm-spirv'); do set -- $$pair; \
	[ "$$2" ] && command -v $$1 >/dev/null && command -v $$2 >/dev/null && echo $$pair && break; done)
HAVE_spirv := $(if $(SPIRV_TOOLS),found)
NAMED_spirv := clang with the llvm-spirv of its version (clang-14 and llvm-spirv-14$(comma) or CLANG_SPIRV=/path LLVM_SPIRV=/path)
PARTS := verbs ofi pmix cuda ze spirv hwloc
# Not a part: how what is shipped is optimised (mk/library.mk). Builds that are not optimised, and those of sanitizers, are for tests. Of what it
# lacks a compiler says the name alone. gcc 10 is the first that knows all options used.
HAVE_lto := $(and $(if $(MODE_FLAGS)$(filter -O0 -Og,$(O)),,yes),$(filter /%,$(shell $(CC) -print-prog-name=lto1)),\
	$(filter /%,$(shell $(CC) -print-file-name=liblto_plugin.so)),$(filter 1% 2% 3%,$(filter-out 1 2 3,$(shell $(CC) -dumpversion | cut -d. -f1))))
NAMED_lto := gcc 10 or later with link-time optimisation, in an optimised build without MODE_FLAGS
WITH_LTO ?= auto
WITH_VERBS ?= auto
WITH_OFI ?= auto
WITH_PMIX ?= auto
WITH_CUDA ?= auto
WITH_ZE ?= auto
WITH_SPIRV ?= auto
WITH_HWLOC ?= auto
WITH_verbs := $(WITH_VERBS)
WITH_ofi := $(WITH_OFI)
WITH_pmix := $(WITH_PMIX)
WITH_cuda := $(WITH_CUDA)
WITH_ze := $(WITH_ZE)
WITH_spirv := $(WITH_SPIRV)
WITH_hwloc := $(WITH_HWLOC)
OPTIONS += WITH_VERBS WITH_OFI WITH_PMIX WITH_CUDA WITH_ZE WITH_SPIRV WITH_HWLOC WITH_LTO NVCC CLANG_SPIRV LLVM_SPIRV
$(foreach part,$(PARTS),$(if $(filter auto yes no,$(WITH_$(part))),,\
	$(error weft: WITH_$(shell echo $(part) | tr a-z A-Z)=$(WITH_$(part)): auto$(comma) yes or no is expected)))
$(if $(filter auto yes no,$(WITH_LTO)),,$(error weft: WITH_LTO=$(WITH_LTO): auto$(comma) yes or no is expected))
# Those that this build has.
HAVE := $(foreach part,$(PARTS),$(if $(filter-out no,$(WITH_$(part))),$(if $(HAVE_$(part)),$(part))))
have = $(filter $(1),$(HAVE))

DEPEND_CFLAGS := $(foreach name,$(LIB_NEEDS) expat jansson ofi verbs hwloc ze,$(CFLAGS_$(name)))
PRIVATE_LIBS := $(foreach name,$(LIB_NEEDS),$(LIBS_$(name))) -ldl -lpthread -lm
LIBS := -Wl,--as-needed $(PRIVATE_LIBS)
# What programs that link libweft-tools.a need besides.
TOOLS_LIBS := $(LIBS) $(LIBS_expat)

# $(call missing,NAMES): a line of shell that says what is not there, and fails.
missing = $(foreach name,$(1),$(if $(HAVE_$(name)),,echo "weft: $(name) is missing: no $(NAMED_$(name))" >&2; missing=1;)) \
	[ -z "$$missing" ] || { $(if $(shell command -v $(PKG_CONFIG)),,echo "weft: there is no $(PKG_CONFIG) to ask$(comma) which is in pkg-config" >&2;) \
	echo "weft: make deps installs what building needs on Debian and Ubuntu" >&2; exit 1; }
# How a part is built in, or why it is not.
part_state = $(1) $(if $(filter no,$(WITH_$(1))),no (left out),$(if $(HAVE_$(1)),yes,no (there is no $(NAMED_$(1)))))

# $(call kept,TEXT,AFTER): writes the text to the target when it differs from what is there, so that what depends on it is made again,
# and then runs the command.
kept = $(Q)mkdir -p $(@D); printf '%s\n' '$(subst ','\'',$(1))' | cmp -s - $@ || { printf '%s\n' '$(subst ','\'',$(1))' >$@; $(2) }

# What objects depend on beside their sources. Warnings are not in it, so that a build without WERROR=1 serves one with it.
$(BUILD)/config: FORCE
	$(Q)$(call missing,$(LIB_NEEDS) $(foreach part,$(PARTS),$(if $(filter yes,$(WITH_$(part))),$(part))) $(if $(filter yes,$(WITH_LTO)),lto))
	$(call kept,$(CC) $(CPPFLAGS) $(DEPEND_CFLAGS) $(CFLAGS_BUILD) $(MODE_FLAGS) $(CFLAGS) $(VECTOR_FLAGS) $(if $(WHOLE),whole))
# What archives and libraries depend on beside their objects: which these are.
$(BUILD)/parts: $(BUILD)/config FORCE
	$(call kept,$(HAVE) $(LDFLAGS),echo "weft $(VERSION): $(part_list)";)
# The tools' --version names them.
EXTRA_version := -DWEFT_BUILT_WITH='"$(or $(strip $(HAVE)),no optional part)"'
$(BUILD)/base/tool/version.o: $(BUILD)/parts
part_list = $(call part_state,verbs)$(comma) $(call part_state,ofi)$(comma) $(call part_state,pmix)$(comma) \
	$(call part_state,cuda)$(comma) $(call part_state,ze)$(comma) $(call part_state,spirv)$(comma) $(call part_state,hwloc)

# Before what only tools, or only tests, need.
.PHONY: FORCE need-expat need-jansson need-cmocka
need-expat need-jansson need-cmocka: need-%:
	$(Q)$(call missing,$*)
