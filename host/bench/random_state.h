// Decode state of random numbers, for measurements after long contexts.
#pragma once

#include <cstddef>
#include <span>

#include "decoder/model.h"
#include "device/device.h"

namespace lamina::bench {

// Writes a state: numbers from -1 to 1 in its type and storage, or token ids below `vocab`.
void write_random(Queue& queue, const decoder::StateTensor& state, std::int64_t vocab,
                  const TensorRef& tensor, const device::Device& device);

}  // namespace lamina::bench
