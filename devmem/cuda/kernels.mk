# SPDX-License-Identifier: Apache-2.0
# The CUDA kernels' image, where there is an nvcc that knows sm_90 (mk/depends.mk); WITH_CUDA=no leaves it out. KERNEL_IMAGE is the file, empty without.
# Beside it lie what tests/devmem/test_kernels_image looks at: the compiler's report on each kernel (reduce.log), and in nvcc/ the
# PTX and the code for each architecture.

NVCC_FLAGS ?=
# The image is the same for every compiler and sanitizer: build/clang, build/asan, ... share build/'s.
KERNEL_FOLDER := $(patsubst build/%,build,$(BUILD))/devmem/cuda
KERNEL_IMAGE := $(if $(call have,cuda),$(KERNEL_FOLDER)/reduce.fatbin)
# No contraction, correctly rounded division, denormals kept: the bits are the host's.
KERNEL_FLAGS := -std=c++17 -O3 -fmad=false -prec-div=true -ftz=false -I. -gencode 'arch=compute_80,code=[sm_80,compute_80]' \
	-gencode arch=compute_90,code=sm_90 -Xptxas -v -Xfatbin -compress-all $(NVCC_FLAGS)

$(KERNEL_FOLDER)/reduce.fatbin: devmem/cuda/reduce.cu devmem/cuda/kernels.mk
	$(call say,NVCC,$@)rm -rf $(@D)/nvcc && mkdir -p $(@D)/nvcc && $(NVCC) $(KERNEL_FLAGS) -MMD -MP -MF $(@:.fatbin=.d) -keep \
		-keep-dir $(@D)/nvcc -fatbin $< -o $@ 2>$(@D)/reduce.log && rm -f $(@D)/nvcc/*.ii $(@D)/nvcc/*cudafe* || \
		{ cat $(@D)/reduce.log; echo "weft: nvcc failed; make WITH_CUDA=no builds without CUDA kernels"; exit 1; }

$(BUILD)/devmem/cuda/kernel_image.o: $(KERNEL_IMAGE)
EXTRA_kernel_image := -DWEFT_KERNEL_IMAGE='"$(KERNEL_IMAGE)"'
EXTRA_test_kernels_image := -DKERNEL_FOLDER='"$(KERNEL_FOLDER)"'

-include $(KERNEL_FOLDER)/reduce.d
