// The loops that limits.cc times, one version per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lamina::cpu {

// Does `rounds` rounds of independent multiply-adds on registers and returns the operations done.
// *sink receives a value that depends on all of them.
using FlopLoop = double (*)(std::int64_t rounds, float* sink);

double multiply_add_portable(std::int64_t rounds, float* sink);
double multiply_add_avx2(std::int64_t rounds, float* sink);
double multiply_add_avx512(std::int64_t rounds, float* sink);
double multiply_add_bf16_avx512(std::int64_t rounds, float* sink);

// Reads num_bytes (a multiple of 512) front to back, asking for them 4 KiB ahead; returns a sum of
// them. The memory is 64-byte aligned.
using ReadLoop = std::uint64_t (*)(const std::byte* memory, std::size_t num_bytes);

std::uint64_t read_memory_portable(const std::byte* memory, std::size_t num_bytes);
std::uint64_t read_memory_avx2(const std::byte* memory, std::size_t num_bytes);
std::uint64_t read_memory_avx512(const std::byte* memory, std::size_t num_bytes);

}  // namespace lamina::cpu
