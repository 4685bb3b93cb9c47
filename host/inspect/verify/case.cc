#include "inspect/verify/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "core/float16.h"
#include "io/foreign_file.h"

namespace lamina::inspect {
namespace {

namespace fs = std::filesystem;

// The directory, if it contains a part of a case.
std::string checked(std::string directory) {
  constexpr std::string_view kRight =
      "expected a directory with golden.safetensors and golden.json";
  if (!fs::is_directory(directory))
    throw UserError(
        ExitCode::checkpoint,
        {directory,
         fmt::format("{}; {}", fs::exists(directory) ? "is not a directory" : "no such directory",
                     kRight),
         {}});
  for (const char* file : {"golden.json", "golden.safetensors", "golden.safetensors.index.json"})
    if (fs::exists(fs::path(directory) / file)) return directory;
  throw UserError(ExitCode::checkpoint,
                  {"",
                   fmt::format("{} is not a golden case: it has neither golden.safetensors nor "
                               "golden.json",
                               directory),
                   {io::contents_in_words(directory)}});
}

}  // namespace

GoldenCase::GoldenCase(std::string dir)
    : directory(checked(std::move(dir))),
      golden(directory + "/golden.safetensors"),
      info(JsonDocument::read(directory + "/golden.json", {.code = ExitCode::checkpoint})) {}

std::vector<float> GoldenCase::floats(std::string_view name) const {
  io::TensorView view = golden.tensor(name);
  if (view.dtype != DType::f32)
    user_error(ExitCode::checkpoint, golden.path(), "tensor '{}' is {}, expected f32", name,
               lamina::name(view.dtype));
  std::vector<float> out(view.bytes.size() / sizeof(float));
  std::memcpy(out.data(), view.bytes.data(), view.bytes.size());
  return out;
}

std::vector<std::int32_t> GoldenCase::ints(std::string_view name) const {
  io::TensorView view = golden.tensor(name);
  if (view.dtype != DType::i32)
    user_error(ExitCode::checkpoint, golden.path(), "tensor '{}' is {}, expected i32", name,
               lamina::name(view.dtype));
  std::vector<std::int32_t> out(view.bytes.size() / sizeof(std::int32_t));
  std::memcpy(out.data(), view.bytes.data(), view.bytes.size());
  return out;
}

double GoldenCase::number(std::string_view name) const {
  const std::vector<float> values = floats(name);
  if (values.size() != 1)
    user_error(ExitCode::checkpoint, golden.path(), "tensor '{}' is {}; expected one number", name,
               to_string(shape(name)));
  return static_cast<double>(values[0]);
}

double GoldenCase::tolerance(std::string_view key, double fallback) const {
  JsonValue all = info.root().find("tolerance");
  JsonValue value = all ? all.find(key) : JsonValue();
  return value ? value.as_double() : fallback;
}

DType GoldenCase::reference_dtype() const {
  const auto is_bfloat16 = [](float v) { return to_float(to_bfloat16(v)) == v; };
  return has("logits") && std::ranges::all_of(floats("logits"), is_bfloat16) ? DType::bf16
                                                                             : DType::f32;
}

}  // namespace lamina::inspect
