#include "model/average.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>

#include "core/error.h"
#include "core/log.h"
#include "io/directory_commit.h"
#include "io/hf_directory.h"
#include "io/stored_weight.h"
#include "model/export.h"
#include "model/new_directory.h"
#include "model/open.h"
#include "train/loop/run_directory.h"
#include "weights/check/difference.h"
#include "weights/check/finite.h"
#include "weights/match/tensor_map.h"
#include "weights/publish/published_form.h"
#include "weights/weights.h"

namespace lamina::model {
namespace {

namespace fs = std::filesystem;

struct Input {
  OpenedModel opened;
  std::shared_ptr<io::WeightFiles> files;
};

Input open_input(const std::string& path, const registry::Catalog& plugins) {
  Input out{open_weights(path, plugins), {}};
  if (out.opened.model->adapter())
    throw UserError(ExitCode::usage,
                    {path,
                     "is a model with an adapter; the mean of adapters is not an adapter of the "
                     "mean model",
                     {"use `lamina ckpt merge` on each of them first"}});
  out.files = out.opened.weight_files();
  if (out.files->gguf())
    user_error(ExitCode::checkpoint, path, "is a GGUF file, which lamina can read but not write");
  return out;
}

// Returns the names of all tensors in the files, with those that packed weights consist of.
std::vector<std::string_view> stored_names(const io::WeightFiles& files) {
  std::vector<std::string_view> out;
  for (std::string_view name : files.all_names()) {
    const io::PackedTensors* packed = files.packed(name);
    const auto parts = packed ? packed->names() : std::vector<std::string_view>{name};
    out.insert(out.end(), parts.begin(), parts.end());
  }
  return out;
}

bool is_quantised(const io::WeightFiles& files) {
  return std::ranges::any_of(files.all_names(), [&](std::string_view name) {
    return files.packed(name) || files.block_format(name);
  });
}

// Checks that both have the same tensor names, shapes and types, and that tensors without a mean
// are equal.
void check_tensors(const io::WeightFiles& first, const io::WeightFiles& other) {
  constexpr const char* kSameForm =
      "`lamina ckpt diff` shows the differences; `lamina ckpt export` converts checkpoints and "
      "published models to the same form";
  constexpr const char* kPlainWeights =
      "`lamina ckpt export --dtype bfloat16` writes a quantised model with plain weights, which "
      "have a mean";
  const char* const form_advice =
      is_quantised(first) || is_quantised(other) ? kPlainWeights : kSameForm;
  const auto fail = [&](std::string_view name, const std::string& what, const char* advice) {
    throw UserError(ExitCode::checkpoint,
                    {other.path(), fmt::format("tensor '{}' {}", name, what), {advice}});
  };
  for (std::string_view name : first.all_names()) {
    if (!other.contains(name))
      fail(name, fmt::format("is missing, but {} has it", first.path()), form_advice);
    const io::TensorView a = first.tensor(name), b = other.tensor(name);
    if (a.dtype != b.dtype || !(a.shape == b.shape))
      fail(name,
           fmt::format("is {}{}, but in {} it is {}{}", lamina::name(b.dtype), to_string(b.shape),
                       first.path(), lamina::name(a.dtype), to_string(a.shape)),
           form_advice);
    if (is_floating(a.dtype) || weights::is_identical(first, other, name)) continue;
    const formats::BlockFormat* blocks = other.block_format(name);
    fail(name,
         fmt::format("({}) differs from the one in {}; quantised weights and integers have no "
                     "mean, and must be equal in all models",
                     other.packed(name) ? "packed"
                     : blocks           ? blocks->name
                                        : lamina::name(b.dtype),
                     first.path()),
         kPlainWeights);
  }
  for (std::string_view name : other.all_names())
    if (!first.contains(name))
      fail(name, fmt::format("is missing in {}", first.path()), form_advice);
}

// Checks the values of parameters, which may be quantised, and of other tensors that have a mean,
// eg of a vision tower. Tensors that are equal in all models are copied: they may be masks of
// -infinity.
void require_finite_values(const weights::TensorMap& map, const std::vector<Input>& inputs) {
  std::set<std::string> names;
  for (const weights::PublishedTensor& tensor : map.tensors()) names.insert(tensor.name);
  const io::WeightFiles& first = *inputs[0].files;
  const auto is_equal_in_all = [&](std::string_view name) {
    return std::ranges::all_of(inputs, [&](const Input& input) {
      return weights::is_identical(first, *input.files, name);
    });
  };
  for (std::string_view name : first.all_names())
    if (!names.contains(std::string(name)) && !is_equal_in_all(name)) names.emplace(name);
  for (const Input& input : inputs)
    for (const std::string& name : names) weights::require_finite(*input.files, name);
}

// Warns about models that are probably in a list by mistake, such as the list of a glob.
void warn_of_inputs(std::span<const std::string> paths, const std::vector<Input>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const fs::path directory = fs::weakly_canonical(inputs[i].opened.directory);
    if (train::is_set_aside(directory.string()))
      log::warning(
          "{}: training set this checkpoint aside and does not use it; remove it, unless you want "
          "it in the mean",
          paths[i]);
    for (std::size_t before = 0; before < i; ++before)
      if (fs::weakly_canonical(inputs[before].opened.directory) == directory) {
        log::warning(
            "{}: is the same model as {}, and counts once more; remove one, unless you want "
            "that weight",
            paths[i], paths[before]);
        break;
      }
  }
}

// Returns x, or, if f32 has no such value, the neighbour of x whose last bit is 1. Rounding that to
// a shorter type gives the same as rounding x. Boldo and Melquiond 2008.
float round_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  const auto back = static_cast<double>(nearest);
  if (back == x || std::isnan(x) || std::bit_cast<std::uint32_t>(nearest) & 1) return nearest;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return std::nextafter(nearest, x > back ? kInfinity : -kInfinity);
}

// Computes the means of tensors, one at a time. REQUIRES: check_tensors() of all.
class Averager {
 public:
  explicit Averager(const std::vector<Input>& inputs) : inputs_(inputs) {}

  // Borrowed; valid until the next call.
  std::span<const std::byte> mean(const io::TensorSpec& spec) {
    const io::TensorView first = inputs_[0].files->tensor(spec.name);
    const bool same = std::ranges::all_of(inputs_, [&](const Input& input) {
      return std::ranges::equal(input.files->tensor(spec.name).bytes, first.bytes);
    });
    if (same) return first.bytes;
    const auto count = static_cast<std::size_t>(spec.shape.num_elements());
    sums_.assign(count, 0);
    values_.resize(count);
    for (const Input& input : inputs_) add(*input.files, spec);
    for (double& sum : sums_) sum /= static_cast<double>(inputs_.size());
    if (spec.dtype == DType::f64) return std::as_bytes(std::span(sums_));
    std::ranges::transform(sums_, values_.begin(), [&](double mean) {
      return spec.dtype == DType::f32 ? static_cast<float>(mean) : round_to_odd(mean);
    });
    bytes_.resize(count * static_cast<std::size_t>(size_bytes(spec.dtype)));
    weights::store(values_, spec.dtype, 0, bytes_.data());
    return bytes_;
  }

 private:
  void add(const io::WeightFiles& files, const io::TensorSpec& spec) {
    if (spec.dtype == DType::f64) {
      const std::byte* from = files.tensor(spec.name).bytes.data();
      for (double& sum : sums_) {
        double value = 0;
        std::memcpy(&value, from, sizeof value);
        from += sizeof value;
        sum += value;
      }
      return;
    }
    io::StoredWeight(files, spec.name).decode(0, 1, values_);
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += static_cast<double>(values_[i]);
  }

  const std::vector<Input>& inputs_;
  std::vector<double> sums_;
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
};

}  // namespace

weights::Exported average_models(std::span<const std::string> paths, const std::string& to,
                                 const registry::Catalog& plugins) {
  check_new_directory(to, paths);
  std::vector<Input> inputs;
  for (const std::string& path : paths) inputs.push_back(open_input(path, plugins));
  const io::WeightFiles& first = *inputs[0].files;
  for (const Input& input : inputs) input.files->check_index();
  const weights::TensorMap map = weights::match_weights(*inputs[0].opened.model, first);
  for (const Input& input : inputs) check_tensors(first, *input.files);
  warn_of_inputs(paths, inputs);
  require_finite_values(map, inputs);

  weights::Exported out;
  std::vector<io::TensorSpec> specs;
  io::WeightFilesOptions options;
  for (std::string_view name : stored_names(first)) {
    const io::TensorView tensor = first.tensor(name);
    specs.push_back({std::string(name), tensor.dtype, tensor.shape});
    if (const formats::BlockFormat* blocks = first.block_format(name))
      options.metadata[io::blocks_key(name)] = blocks->name;
    out.num_bytes += tensor.bytes.size();
    options.file_of.emplace(name, fs::path(first.path_of(name)).filename().string());
  }
  out.num_tensors = static_cast<std::int64_t>(specs.size());
  Averager averager(inputs);
  io::DirectoryCommit commit(to);
  // Before the weights: training may remove this directory, but not open files.
  const fs::path from = inputs[0].opened.directory;
  for (const std::string& name : {std::string("model.toml"), std::string("config.json"),
                                  std::string(weights::kPublishedFormFile)})
    if (fs::exists(from / name))
      io::copy_durably((from / name).string(), commit.path() + "/" + name);
  io::copy_side_files(from.string(), commit.path());
  io::write_weight_files(
      commit.path(), specs, [&](const io::TensorSpec& spec) { return averager.mean(spec); },
      options);
  check_that_it_loads(commit.path(), to, plugins);
  commit.commit();
  return out;
}

}  // namespace lamina::model
