#include "backends/cuda/described/cards.h"

#include <algorithm>

namespace lamina::cuda {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30, kMiB = std::int64_t{1} << 20;

constexpr Card kCards[kNumCards] = {
    {"a100", "NVIDIA A100-SXM4-80GB", 80, 108, 1410000, 80 * kGiB, 40 * kMiB, 163 << 10, 2039e9,
     32e9},
    {"h100", "NVIDIA H100 80GB HBM3", 90, 132, 1830000, 80 * kGiB, 50 * kMiB, 227 << 10, 3350e9,
     64e9},
    {"h200", "NVIDIA H200", 90, 132, 1830000, 141 * kGiB, 50 * kMiB, 227 << 10, 4800e9, 64e9},
    {"rtx3090", "NVIDIA GeForce RTX 3090", 86, 82, 1695000, 24 * kGiB, 6 * kMiB, 99 << 10, 936e9,
     32e9},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 89, 128, 2520000, 24 * kGiB, 72 * kMiB, 99 << 10, 1008e9,
     32e9},
};

}  // namespace

std::span<const Card> cards() { return kCards; }

const Card* find_card(std::string_view name) {
  const auto found = std::ranges::find(kCards, name, &Card::name);
  return found == std::end(kCards) ? nullptr : found;
}

}  // namespace lamina::cuda
