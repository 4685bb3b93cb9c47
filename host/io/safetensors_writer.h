// Writes safetensors files, tensor by tensor, durably.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "io/durable_file.h"

namespace lamina::io {

// A tensor to write.
struct TensorSpec {
  std::string name;
  DType dtype;
  Shape shape;
};

// Returns the size of its data.
std::uint64_t num_bytes(const TensorSpec& spec);

// Returns the bytes of one tensor, row-major, valid until the next call. Called once per tensor, in
// the order of the file.
using TensorSource = std::function<std::span<const std::byte>(const TensorSpec&)>;

// Passes the bytes of one tensor to the sink in pieces.
using TensorStream = std::function<void(const TensorSpec&, const ByteSink&)>;

// Sorts tensors into file order: elements of 8 bytes before 4, 2, 1 (so that each tensor is aligned
// to its elements), then by name. The same tensors always give the same bytes.
void sort_for_file(std::vector<TensorSpec>& specs);

// Writes `path` (see DurableFile) and returns its checksums. Errors: a duplicate name or
// "__metadata__"; a header above the format's limit; not enough disk space.
FileDigest write_safetensors(const std::string& path, std::vector<TensorSpec> specs,
                             const std::map<std::string, std::string>& metadata,
                             const TensorStream& stream, NamedBy named_by = NamedBy::program);
FileDigest write_safetensors(const std::string& path, std::vector<TensorSpec> specs,
                             const std::map<std::string, std::string>& metadata,
                             const TensorSource& source, NamedBy named_by = NamedBy::program);
// Passes each tensor of `source` in one piece. REQUIRES: `source` outlives the result.
TensorStream in_one_piece(const TensorSource& source);

}  // namespace lamina::io
