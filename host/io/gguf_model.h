// Models in GGUF files: one file, or all parts of a model that is split over several.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_file.h"

namespace lamina::io {

// The parts of a split model are named NAME-00001-of-00003.gguf and so on; the first has the
// metadata. Errors (class checkpoint): a part is missing, has another name, or belongs to another
// model; the number of tensors differs from the one in the first part.
class GgufModel {
 public:
  // `path`: the file, or any part.
  explicit GgufModel(const std::string& path);

  const std::string& path() const { return first().path(); }
  // The part with the metadata.
  const GgufFile& first() const { return *parts_.front(); }
  const std::vector<std::unique_ptr<GgufFile>>& parts() const { return parts_; }
  // Returns null if no part has it.
  const GgufTensor* find_tensor(std::string_view name) const;
  std::uint64_t file_bytes() const;

 private:
  std::vector<std::unique_ptr<GgufFile>> parts_;
};

// Returns the GGUF file of `path`: the file itself, by its first bytes or its extension, or the
// only model in a directory that contains no other; for a split model, the first part. Returns ""
// if there is none. Errors (class checkpoint): a directory with several models; a missing first
// part.
std::string gguf_in(const std::string& path);

}  // namespace lamina::io
