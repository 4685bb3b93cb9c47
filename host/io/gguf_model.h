// Models in GGUF files: one file, or all parts of a model that is split over several.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_file.h"

namespace lamina::io {

// The parts of a model that is split are called NAME-00001-of-00003.gguf and so on; the first has
// the metadata. Errors (class checkpoint): a part that is missing, is called otherwise, or is not
// of this model; fewer or more tensors than the first part says.
class GgufModel {
 public:
  // `path`: the file, or any part.
  explicit GgufModel(const std::string& path);

  const std::string& path() const { return first().path(); }
  // What has the metadata.
  const GgufFile& first() const { return *parts_.front(); }
  const std::vector<std::unique_ptr<GgufFile>>& parts() const { return parts_; }
  // Null if no part has it.
  const GgufTensor* find_tensor(std::string_view name) const;
  std::uint64_t file_bytes() const;

 private:
  std::vector<std::unique_ptr<GgufFile>> parts_;
};

// The GGUF file that `path` leads to: itself, by its first bytes or its ending, or the only model
// in a directory that holds no other; of parts, the first. "" where there is none. Errors (class
// checkpoint): a directory with several models; a part without the first.
std::string gguf_in(const std::string& path);

}  // namespace lamina::io
