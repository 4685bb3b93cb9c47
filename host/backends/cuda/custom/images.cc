#include "backends/cuda/custom/images.h"

#include <fmt/ranges.h>

namespace lamina::cuda {
namespace {

using ops::GpuImage;

bool is_for(const GpuImage& image, int capability) {
  if (image.only_this_capability || image.capability > capability)
    return image.capability == capability;
  return image.kind == GpuImage::Kind::ptx || image.capability / 10 == capability / 10;
}

}  // namespace

const GpuImage* choose_image(std::span<const GpuImage> images, int capability) {
  const GpuImage* out = nullptr;
  const auto rank = [](const GpuImage& image) {
    return std::pair(image.kind == GpuImage::Kind::cubin, image.capability);
  };
  for (const GpuImage& image : images)
    if (is_for(image, capability) && (!out || rank(image) > rank(*out))) out = &image;
  return out;
}

std::string capability_text(int capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

std::string text_of(const GpuImage& image) {
  const bool is_ptx = image.kind == GpuImage::Kind::ptx;
  return fmt::format("{} for {}{}", is_ptx ? "PTX" : "a cubin", capability_text(image.capability),
                     image.only_this_capability ? " only"
                     : is_ptx                   ? " and newer"
                                                : fmt::format(" to {}.9", image.capability / 10));
}

std::string text_of(std::span<const GpuImage> images) {
  std::vector<std::string> out;
  for (const GpuImage& image : images) out.push_back(text_of(image));
  return out.empty() ? "none" : fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace lamina::cuda
