#include "io/safetensors_writer.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/json_writer.h"
#include "core/printable.h"
#include "core/round_up.h"
#include "io/safetensors.h"

namespace lamina::io {
namespace {

constexpr std::size_t kHeaderAlignBytes = 8;

std::string header_text(const std::vector<TensorSpec>& specs,
                        const std::map<std::string, std::string>& metadata) {
  JsonWriter json;
  json.begin_object();
  if (!metadata.empty()) {
    json.key("__metadata__").begin_object();
    for (const auto& [key, value] : metadata) json.key(key).value(value);
    json.end_object();
  }
  std::uint64_t at = 0;
  for (const TensorSpec& spec : specs) {
    json.key(spec.name).begin_object();
    json.key("dtype").value(safetensors_type(spec.dtype));
    json.key("shape").begin_array();
    for (std::int64_t dim : spec.shape.dims()) json.value(dim);
    json.end_array();
    json.key("data_offsets").begin_array().value(at).value(at + num_bytes(spec)).end_array();
    json.end_object();
    at += num_bytes(spec);
  }
  json.end_object();
  std::string text = json.text();
  text.resize(round_up(text.size(), kHeaderAlignBytes), ' ');
  return text;
}

}  // namespace

std::uint64_t num_bytes(const TensorSpec& spec) {
  return static_cast<std::uint64_t>(spec.shape.num_elements()) *
         static_cast<std::uint64_t>(size_bytes(spec.dtype));
}

void sort_for_file(std::vector<TensorSpec>& specs) {
  std::sort(specs.begin(), specs.end(), [](const TensorSpec& a, const TensorSpec& b) {
    const int a_bytes = size_bytes(a.dtype), b_bytes = size_bytes(b.dtype);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a.name < b.name;
  });
}

FileDigest write_safetensors(const std::string& path, std::vector<TensorSpec> specs,
                             const std::map<std::string, std::string>& metadata,
                             const TensorStream& stream, NamedBy named_by) {
  std::vector<std::string_view> names;
  for (const TensorSpec& spec : specs) names.push_back(spec.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    user_error(ExitCode::checkpoint, path, "two tensors are named '{}'; names must be unique",
               printable(*twice));
  if (std::binary_search(names.begin(), names.end(), "__metadata__"))
    user_error(ExitCode::checkpoint, path, "a tensor must not be named '__metadata__'");

  sort_for_file(specs);
  const std::string header = header_text(specs, metadata);
  if (header.size() > kMaxHeaderBytes)
    user_error(ExitCode::checkpoint, path,
               "the header of {} tensors would have {} bytes; the maximum is {}", specs.size(),
               header.size(), kMaxHeaderBytes);
  std::uint64_t data_bytes = 0;
  for (const TensorSpec& spec : specs) data_bytes += num_bytes(spec);

  DurableFile file(path, 8 + header.size() + data_bytes, named_by);
  const std::uint64_t header_bytes = header.size();
  std::string start(8, '\0');
  std::memcpy(start.data(), &header_bytes, 8);
  start += header;
  file.write_part("header", std::as_bytes(std::span(start)));
  for (const TensorSpec& spec : specs) {
    const std::uint64_t first = file.num_bytes();
    file.write_part(spec.name, [&](const ByteSink& sink) { stream(spec, sink); });
    LAMINA_ASSERT(file.num_bytes() - first == num_bytes(spec));
  }
  return file.commit();
}

TensorStream in_one_piece(const TensorSource& source) {
  return [&](const TensorSpec& spec, const ByteSink& sink) { sink(source(spec)); };
}

FileDigest write_safetensors(const std::string& path, std::vector<TensorSpec> specs,
                             const std::map<std::string, std::string>& metadata,
                             const TensorSource& source, NamedBy named_by) {
  return write_safetensors(path, std::move(specs), metadata, in_one_piece(source), named_by);
}

}  // namespace lamina::io
