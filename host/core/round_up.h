// Rounds sizes up. Internal to every file: some files are compiled for several instruction sets,
// and the linker must not share their instantiations.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lamina {
namespace {

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }
constexpr std::size_t divide_up(std::size_t n, std::size_t by) { return (n + by - 1) / by; }

// Returns the next multiple of `to`.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) { return divide_up(n, to) * to; }
constexpr std::size_t round_up(std::size_t n, std::size_t to) { return divide_up(n, to) * to; }

// Returns the size of a part of a buffer such that the next part is also 64-byte aligned.
constexpr std::size_t aligned(std::size_t bytes) { return round_up(bytes, 64); }

}  // namespace
}  // namespace lamina
