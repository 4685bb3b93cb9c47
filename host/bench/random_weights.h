// Weights for benchmarks: from a checkpoint, else random ones that are cheap to make.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "device/device.h"
#include "weights/weights.h"

namespace lamina::bench {

// Writes a parameter of the type of `tensor` (f32 or bf16), plain. Matrices get uniform numbers of
// deviation 0.02 from a hash, by all threads; the rest is initialised as it declares.
void write_random(Queue& queue, const decoder::Parameter& parameter, const TensorRef& tensor,
                  const device::Device& device);

class BenchWeights {
 public:
  // `files` null: random weights.
  BenchWeights(const decoder::Model& model, std::shared_ptr<const io::WeightFiles> files,
               DType dtype, const Backend& backend, const device::Device& device);
  std::span<const ConstTensorRef> pointers() const {
    return loaded_ ? loaded_->pointers() : tensors_;
  }

 private:
  std::optional<weights::Weights> loaded_;
  BufferParts owned_;
  std::vector<ConstTensorRef> tensors_;
};

}  // namespace lamina::bench
