// Reads safetensors files: names, types, shapes, and the bytes in place in the mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "io/mapped_file.h"

namespace lamina::io {

// Limit for the JSON header of a file, as in the reference implementation.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// A tensor of a file, ready for use. All views are borrowed from the file object.
struct TensorView {
  std::string_view name;
  DType dtype;
  Shape shape;
  std::span<const std::byte> bytes;  // row-major, little-endian; may be unaligned
};

// One entry of a file's header. Files may contain types and numbers of dims that lamina does not
// support; they are listed, and only view() refuses them.
struct StoredTensor {
  std::string name;
  std::string_view type;  // "BF16", as in the file
  std::vector<std::uint64_t> dims;
  std::span<const std::byte> bytes;
};

// Returns the name of `dtype` in safetensors files, eg: "BF16".
std::string_view safetensors_type(DType dtype);

// A whole file, checked when it is opened: every byte of the data belongs to exactly one tensor,
// whose type and shape need exactly these bytes. Every error is a UserError of class checkpoint
// with the file, the tensor and both numbers.
//   SafetensorsFile file("model.safetensors");
//   TensorView w = file.tensor("model.norm.weight");
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  std::uint64_t file_bytes() const { return file_.bytes().size(); }
  // The strings of `__metadata__`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // In the order of their data.
  std::span<const StoredTensor> tensors() const { return tensors_; }
  // Returns null if there is no tensor of this name.
  const StoredTensor* find(std::string_view name) const;
  // Errors: the tensor is missing; its type or number of dims is not supported.
  TensorView tensor(std::string_view name) const;
  TensorView view(const StoredTensor& stored) const;

 private:
  MappedFile file_;
  std::map<std::string, std::string> metadata_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

}  // namespace lamina::io
