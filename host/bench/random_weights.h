// Weights for benchmarks: from a checkpoint, else random ones that are cheap to make.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/device.h"
#include "weights/weights.h"

namespace lamina::bench {

// Fills a parameter of `dtype` (f32 or bf16). Matrices get uniform numbers of deviation 0.02 from a
// hash, by all threads; other parameters use their declared initialisation.
void fill_random(const decoder::Parameter& parameter, DType dtype, void* out, const Device& device);

class BenchWeights {
 public:
  // `directory` empty: random weights.
  BenchWeights(const decoder::Model& model, const std::string& directory, DType dtype,
               const Backend& backend, const Device& device);
  std::span<void* const> pointers() const { return loaded_ ? loaded_->pointers() : pointers_; }

 private:
  std::optional<weights::Weights> loaded_;
  BufferParts owned_;
  std::vector<void*> pointers_;
};

}  // namespace lamina::bench
