// An exported model with other bytes in one of its tensors.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace lamina::cli {

inline void spoil_tensor(const std::string& model, std::string_view tensor,
                         const std::function<void(std::span<std::byte>)>& change) {
  const std::string file = model + "/model.safetensors", spoilt = model + "/spoilt";
  {
    const io::SafetensorsFile from(file);
    const std::span<const std::byte> whole = from.tensor(tensor).bytes;
    std::vector<std::byte> changed(whole.begin(), whole.end());
    change(changed);
    std::vector<io::TensorSpec> specs;
    for (const io::StoredTensor& stored : from.tensors())
      specs.push_back({stored.name, from.view(stored).dtype, from.view(stored).shape});
    io::write_safetensors(spoilt, specs, from.metadata(),
                          [&](const io::TensorSpec& spec) -> std::span<const std::byte> {
                            if (spec.name == tensor) return changed;
                            return from.tensor(spec.name).bytes;
                          });
  }
  std::filesystem::rename(spoilt, file);
}

}  // namespace lamina::cli
