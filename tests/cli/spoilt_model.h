// An exported model with other bytes in one of its tensors.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/safetensors_writer.h"
#include "io/weight_files.h"

namespace lamina::cli {

inline void spoil_tensor(const std::string& model, std::string_view tensor,
                         const std::function<void(std::span<std::byte>)>& change) {
  const std::string file = model + "/model.safetensors", spoilt = model + "/spoilt";
  {
    const io::WeightFiles files(model);
    const std::span<const std::byte> whole = files.tensor(tensor).bytes;
    std::vector<std::byte> changed(whole.begin(), whole.end());
    change(changed);
    std::vector<io::TensorSpec> specs;
    for (const std::string_view name : files.names())
      specs.push_back({std::string(name), files.tensor(name).dtype, files.tensor(name).shape});
    io::write_safetensors(spoilt, specs, {},
                          [&](const io::TensorSpec& spec) -> std::span<const std::byte> {
                            if (spec.name == tensor) return changed;
                            return files.tensor(spec.name).bytes;
                          });
  }
  std::filesystem::rename(spoilt, file);
}

}  // namespace lamina::cli
