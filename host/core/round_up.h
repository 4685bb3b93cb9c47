// Sizes rounded up. Internal in every file: some are compiled for several instruction sets, and the
// linker must not share what one of them has made.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lamina {
namespace {

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }
constexpr std::size_t divide_up(std::size_t n, std::size_t by) { return (n + by - 1) / by; }

// The next multiple of `to`.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) { return divide_up(n, to) * to; }
constexpr std::size_t round_up(std::size_t n, std::size_t to) { return divide_up(n, to) * to; }

// Bytes that a part of a buffer takes so that the next part is 64-byte aligned too.
constexpr std::size_t aligned(std::size_t bytes) { return round_up(bytes, 64); }

}  // namespace
}  // namespace lamina
