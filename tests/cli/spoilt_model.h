// An exported model, or an adapter, with other bytes in one of its tensors or with other names.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace lamina::cli {

inline void spoil_tensor(const std::string& model, std::string_view tensor,
                         const std::function<void(std::span<std::byte>)>& change,
                         const std::string& stem = "model") {
  const std::string file = model + "/" + stem + ".safetensors", spoilt = model + "/spoilt";
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

// Gives the tensors of an exported model other names.
inline void rename_tensors(const std::string& model,
                           const std::function<std::string(const std::string&)>& name_of) {
  const std::string file = model + "/model.safetensors", renamed = model + "/renamed";
  {
    const io::SafetensorsFile from(file);
    std::map<std::string, std::string> before;
    std::vector<io::TensorSpec> specs;
    for (const io::StoredTensor& stored : from.tensors()) {
      specs.push_back(
          {name_of(std::string(stored.name)), from.view(stored).dtype, from.view(stored).shape});
      before[specs.back().name] = stored.name;
    }
    io::write_safetensors(renamed, specs, from.metadata(), [&](const io::TensorSpec& spec) {
      return from.tensor(before.at(spec.name)).bytes;
    });
  }
  std::filesystem::rename(renamed, file);
}

}  // namespace lamina::cli
