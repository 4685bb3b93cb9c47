#include "cli/plan/memory_rows.h"

#include <fmt/format.h>

namespace lamina::cli {

std::vector<std::pair<std::string, std::size_t>> memory_rows(const inspect::TrainMemory& memory,
                                                             DType compute) {
  std::vector<std::pair<std::string, std::size_t>> out{
      {"weights in float32", memory.bytes.weights},
      {"frozen weights", memory.bytes.frozen},
      {fmt::format("copies in {}", long_name(compute)), memory.bytes.copies},
      {"moments", memory.bytes.moments},
      {"moving average of the weights", memory.bytes.average},
      {"gradients", memory.bytes.gradients},
      {"temporaries of the optimizer", memory.updates},
      {"while a checkpoint is written", memory.checkpoint},
      {"weights of the teacher", memory.teacher.weights},
      {"temporaries of the teacher", memory.teacher.temporaries},
      {"exchange with other devices", memory.exchange}};
  std::erase_if(out, [](const auto& row) { return row.second == 0; });
  return out;
}

std::vector<std::pair<const char*, std::size_t>> memory_fields(const inspect::TrainMemory& memory) {
  return {{"weight_bytes", memory.bytes.weights},
          {"frozen_weight_bytes", memory.bytes.frozen},
          {"copy_bytes", memory.bytes.copies},
          {"moment_bytes", memory.bytes.moments},
          {"average_bytes", memory.bytes.average},
          {"gradient_bytes", memory.bytes.gradients},
          {"optimizer_temporary_bytes", memory.updates},
          {"checkpoint_copy_bytes", memory.checkpoint},
          {"teacher_bytes", memory.teacher.total()},
          {"exchange_bytes", memory.exchange},
          {"offloaded_state_bytes", memory.bytes.offloaded}};
}

}  // namespace lamina::cli
