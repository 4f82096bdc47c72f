# SPDX-License-Identifier: Apache-2.0
# The modules of kernels for Level Zero, one for each group of families, where there are clang and llvm-spirv (mk/depends.mk); WITH_SPIRV=no leaves
# them out. They are the same for every compiler and sanitizer: build/clang, build/asan, ... share build/'s.
SPIRV_FOLDER := $(patsubst build/%,build,$(BUILD))/devmem/ze/spirv
SPIRV_GROUPS := $(shell sed -n 's/^.define WEFT_KERNEL_GROUP_\([a-z0-9]*\).SUM.*/\1/p' devmem/kernels/families.h)
SPIRV_MODULES := $(if $(call have,spirv),$(SPIRV_GROUPS:%=$(SPIRV_FOLDER)/%.spv) $(SPIRV_GROUPS:%=$(SPIRV_FOLDER)/collective/%.spv))
# LLVM's passes stay out: what they make of loops is often no valid SPIR-V any more, and the driver has passes of its own. No contraction: the bits
# are the host's. Paths do not get in.
SPIRV_FLAGS := -x cl --target=spir64-unknown-unknown -O1 -Xclang -disable-llvm-passes -ffp-contract=off -Wall -Wno-unused-function -I.

# Device collectives need OpenCL's 2.0 for its fences; reductions ask for no more than 1.2 has.
SPIRV_COMPILE = $(call say,CLANG,$@)mkdir -p $(@D) && $(firstword $(SPIRV_TOOLS)) $(SPIRV_FLAGS) $(1) -DWEFT_GROUP=$* -MMD -MP -MF $(@:.bc=.d) -MT $@ \
	-c -emit-llvm $< -o $@ || { echo "weft: $(firstword $(SPIRV_TOOLS)) failed; make WITH_SPIRV=no builds without kernels for Level Zero"; exit 1; }
$(SPIRV_FOLDER)/%.bc: devmem/ze/reduce.cl devmem/ze/kernels.mk
	$(call SPIRV_COMPILE,-cl-std=CL1.2)
$(SPIRV_FOLDER)/collective/%.bc: devmem/ze/collective.cl devmem/ze/kernels.mk
	$(call SPIRV_COMPILE,-cl-std=CL2.0 $(if $(filter bits,$*),-DWEFT_KERNEL_PROBES))
$(SPIRV_FOLDER)/%.spv: $(SPIRV_FOLDER)/%.bc
	$(call say,SPIRV,$@)$(lastword $(SPIRV_TOOLS)) --spirv-max-version=1.0 $< -o $@ || \
		{ echo "weft: $(lastword $(SPIRV_TOOLS)) failed; make WITH_SPIRV=no builds without kernels for Level Zero"; exit 1; }
.PRECIOUS: $(SPIRV_FOLDER)/%.bc $(SPIRV_FOLDER)/collective/%.bc

$(BUILD)/devmem/ze/module_image.o $(BUILD)/whole/devmem/ze/module_image.o: $(SPIRV_MODULES)
EXTRA_module_image := -DWEFT_ZE_MODULES='"$(SPIRV_FOLDER)"'
EXTRA_test_ze_modules := -DSPIRV_FOLDER='"$(SPIRV_FOLDER)"' -DSPIRV_CLANG='"$(firstword $(SPIRV_TOOLS))"' -DSPIRV_LLVM='"$(lastword $(SPIRV_TOOLS))"'

-include $(SPIRV_GROUPS:%=$(SPIRV_FOLDER)/%.d) $(SPIRV_GROUPS:%=$(SPIRV_FOLDER)/collective/%.d)
