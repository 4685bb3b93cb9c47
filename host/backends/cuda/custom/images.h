// The images of a plugin's GPU kernels, and the choice of one for a GPU.
#pragma once

#include <span>
#include <string>

#include "ops/custom.h"

namespace lamina::cuda {

// Returns the image for a GPU of that compute capability (90 for 9.0): the cubin of the highest
// minor capability that it runs, else PTX of the highest capability. Null if no image fits.
const ops::GpuImage* choose_image(std::span<const ops::GpuImage> images, int capability);

// Returns eg: "PTX for 8.0 and newer", "a cubin for 9.0 only".
std::string text_of(const ops::GpuImage& image);
// Returns them all; "none" without images.
std::string text_of(std::span<const ops::GpuImage> images);

// Returns "9.0" for 90.
std::string capability_text(int capability);

}  // namespace lamina::cuda
