// A model in shards whose index names the wrong one.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/json_writer.h"
#include "io/durable_file.h"
#include "io/weight_files.h"

namespace lamina::testing {

// Moves model.safetensors of `directory` to a.safetensors, with an index that assigns the tensors
// for which `is_wrong` returns true to b.safetensors, which lacks them.
inline void write_wrong_index(const std::string& directory,
                              const std::function<bool(std::string_view)>& is_wrong) {
  std::filesystem::rename(directory + "/model.safetensors", directory + "/a.safetensors");
  io::write_safetensors(directory + "/b.safetensors", {{"b", DType::u8, {0}}}, {},
                        [](const io::TensorSpec&) { return std::span<const std::byte>(); });
  const io::SafetensorsFile file(directory + "/a.safetensors");
  JsonWriter json;
  json.begin_object().key("weight_map").begin_object().key("b").value("b.safetensors");
  for (const io::StoredTensor& tensor : file.tensors())
    json.key(tensor.name).value(is_wrong(tensor.name) ? "b.safetensors" : "a.safetensors");
  json.end_object().end_object();
  io::write_durably(directory + "/model.safetensors.index.json", json.text());
}

}  // namespace lamina::testing
