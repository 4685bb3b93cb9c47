// GPUs by their data sheets, for plans without the GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lamina::cuda {

struct Card {
  std::string_view name;       // after "cuda:", eg: "h200"
  std::string_view full_name;  // as the driver shows it
  int capability;              // 90: 9.0
  int num_multiprocessors;
  int clock_khz;  // boost
  std::int64_t memory_bytes, l2_bytes;
  int shared_bytes;              // of a block, at most
  double bytes_per_second;       // of the memory
  double link_bytes_per_second;  // to the host, each way: 16 lanes of PCIe
};

// NVIDIA's data sheets and the appendix "Compute Capabilities" of the CUDA C++ Programming Guide.
inline constexpr std::size_t kNumCards = 5;
std::span<const Card> cards();

// Returns null if no card has the name.
const Card* find_card(std::string_view name);

}  // namespace lamina::cuda
