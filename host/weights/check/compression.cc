#include "weights/check/compression.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/error.h"
#include "core/round_up.h"
#include "io/stored_weight.h"
#include "publishers/formats.h"
#include "text/python_pattern.h"
#include "text/regex.h"

namespace lamina::weights {
namespace {

using Group = io::Compression::Group;
using Order = io::PackedTensors::Order;

constexpr std::string_view kPattern = "re:";
constexpr std::string_view kLinear = "Linear";  // the class of all modules with quantised weights

// A list of modules: exact names, and patterns that must match from the first character.
class Modules {
 public:
  Modules(const std::vector<std::string>& targets, const std::string& where,
          const std::string& key) {
    for (const std::string& target : targets) {
      if (!target.starts_with(kPattern)) {
        names_.push_back(target);
        continue;
      }
      constexpr auto kDialect = text::Regex::Dialect::fancy_regex;
      const std::string pattern = text::from_python(target.substr(kPattern.size()));
      const std::string place = fmt::format("{}: '{}'", where, key);
      const text::Regex by_itself(pattern, place, kDialect);  // "a)|(b" is not valid by itself
      patterns_.emplace_back(fmt::format("^(?:{})", pattern), place, kDialect);
    }
  }

  bool lists(std::string_view name) const {
    return std::ranges::find(names_, name) != names_.end();
  }
  bool contains(std::string_view module) const {
    text::Regex::Match match{};
    return lists(module) || std::ranges::any_of(patterns_, [&](const text::Regex& pattern) {
             return text::Regex::Searcher(pattern).find(module, 0, match) && match.begin == 0;
           });
  }
  // Returns the first of the names that it contains; nothing if it contains none.
  std::optional<std::string> first_of(const std::vector<std::string>& names) const {
    for (const std::string& name : names)
      if (contains(name)) return name;
    return {};
  }
  // Classes of modules are names without a dot.
  bool has_classes() const {
    return std::ranges::any_of(names_,
                               [](const std::string& name) { return name.find('.') == name.npos; });
  }

 private:
  std::vector<std::string> names_;
  std::vector<text::Regex> patterns_;
};

// Returns the names that lists may have for a module: in files, and in the classes of transformers.
std::vector<std::string> names_of(std::string_view module) {
  return {std::string(module), publishers::module_in_classes(module),
          publishers::module_in_files(module)};
}

// Properties of a weight that its tensors determine.
struct Stored {
  std::string_view format;
  int bits;
  bool is_float;
  bool lists_zero_points, has_zero_points;  // has: not only the symmetric one
  bool has_index;
  std::int64_t group_size, columns;       // 0: not in groups of one row
  std::int64_t rows = 0, num_scales = 0;  // of packed weights
  Shape f8_shape = {}, f8_scales = {};    // of values in f8
};

// Values in f8; a tensor without scales is refused when it is opened.
Stored f8_form(const io::WeightFiles& files, std::string_view name) {
  Stored out{"float-quantized", 8, true, false, false, false, 0, 0};
  const std::string scales = fmt::format("{}_scale", name);
  if (!files.contains(scales)) return out;
  if (files.tensor(scales).dtype == DType::u8) out.format = "mxfp8-quantized";
  out.f8_scales = files.tensor(scales).shape;
  out.f8_shape = files.tensor(name).shape;
  return out;
}

std::optional<Stored> stored_form(const io::WeightFiles& files, std::string_view name) {
  const io::PackedTensors* tensors = files.packed(name);
  if (!tensors) {
    const DType dtype = files.tensor(name).dtype;
    if (dtype != DType::f8_e4m3) return {};
    return f8_form(files, name);
  }
  const io::StoredWeight weight(files, name);
  const std::int64_t columns = weight.shape()[-1];
  const std::int64_t rows = weight.shape().num_elements() / std::max<std::int64_t>(1, columns);
  const io::PackedWeight* packed = weight.packed();
  if (!packed)
    return Stored{"mxfp4-pack-quantized",
                  4,
                  true,
                  false,
                  false,
                  false,
                  32,
                  columns,
                  rows,
                  files.tensor(tensors->scales).shape.num_elements()};
  const std::string_view format = tensors->order == Order::words   ? "pack-quantized"
                                  : tensors->order == Order::bytes ? "int-quantized"
                                                                   : "nvfp4-pack-quantized";
  return Stored{format,
                packed->bits(),
                packed->is_float(),
                !tensors->zero_points.empty(),
                packed->has_zero_points(),
                !tensors->group_index.empty(),
                packed->group_size(),
                columns,
                rows,
                packed->num_scales()};
}

struct Contradiction {
  std::string found, expected;
};

// The scales of values in f8 are one for each row, for a group of a row, for the tensor or for a
// block.
std::optional<Contradiction> f8_contradiction(const Group& group, const Stored& stored) {
  const Shape& scales = stored.f8_scales;
  const auto of_blocks = [&](const io::Compression::Block& block) {
    return stored.f8_shape.ndim() >= 2 && scales == io::scales_shape(stored.f8_shape, block);
  };
  constexpr std::int64_t kRow = std::numeric_limits<std::int32_t>::max();
  const bool fits = group.strategy == "tensor"    ? scales.num_elements() == 1
                    : group.strategy == "channel" ? of_blocks({1, kRow})
                    : group.strategy == "group"
                        ? group.group_size > 0 && of_blocks({1, group.group_size})
                    : group.strategy == "block" ? of_blocks(group.block)
                                                : group.strategy.empty();
  if (!fits)
    return Contradiction{fmt::format("has scales {}", to_string(scales)),
                         fmt::format("the scales of the strategy \"{}\"", group.strategy)};
  if (!group.symmetric)
    return Contradiction{"has no zero points", "zero points, because it is not symmetric"};
  return {};
}

// The scales of packed weights are one for each group of a row, for each row, or for the tensor.
std::optional<Contradiction> packed_contradiction(const Group& group, const Stored& stored) {
  const bool of_row = group.strategy == "channel" || group.strategy == "tensor";
  const std::int64_t size =
      of_row || group.group_size == 0 ? stored.columns : std::min(group.group_size, stored.columns);
  if (stored.group_size != size)
    return Contradiction{fmt::format("has groups of {} values", stored.group_size),
                         fmt::format("{}", size)};
  if (group.strategy.empty()) return {};
  const bool of_group = group.strategy == "group" || group.strategy == "tensor_group";
  const std::int64_t of_rows = stored.rows * divide_up(stored.columns, size);
  const bool fits = group.strategy == "tensor"    ? stored.num_scales == 1
                    : group.strategy == "channel" ? stored.num_scales == stored.rows
                    : of_group ? group.group_size > 0 && stored.num_scales == of_rows
                               : false;
  if (!fits)
    return Contradiction{fmt::format("has {} scales for {} rows", stored.num_scales, stored.rows),
                         fmt::format("the scales of the strategy \"{}\"", group.strategy)};
  return {};
}

std::optional<Contradiction> contradiction(const Group& group, const Stored& stored) {
  if (group.bits != stored.bits || group.is_float != stored.is_float)
    return Contradiction{
        fmt::format("has {} of {} bits", stored.is_float ? "floats" : "integers", stored.bits),
        fmt::format("{} of {} bits", group.is_float ? "floats" : "integers", group.bits)};
  if (!group.format.empty() && group.format != "naive-quantized" && group.format != stored.format)
    return Contradiction{fmt::format("has the form {}", stored.format), group.format};
  if (stored.is_float && stored.bits == 8) return f8_contradiction(group, stored);
  if (auto found = packed_contradiction(group, stored)) return found;
  // Zero points of a weight that is not symmetric may all be zero.
  if (group.symmetric && stored.has_zero_points)
    return Contradiction{"has zero points", "none, because it is symmetric"};
  if (!group.symmetric && !stored.lists_zero_points)
    return Contradiction{"has no zero points", "zero points, because it is not symmetric"};
  if (group.reordered && !stored.has_index)
    return Contradiction{"has no tensor 'weight_g_idx'",
                         "the groups of its columns, because actorder is \"group\""};
  return {};
}

class CompressionChecker {
 public:
  explicit CompressionChecker(const io::WeightFiles& files)
      : files_(files),
        config_(files.compression()),
        ignored_(config_.ignored, config_.where, "quantization_config.ignore") {
    for (const Group& group : config_.groups)
      targets_.emplace_back(group.targets, group.where, group.name + ".targets");
  }

  void check(std::string_view name) const {
    const std::optional<Stored> stored = stored_form(files_, name);
    if (!stored) return;
    constexpr std::string_view kWeight = ".weight";
    const std::vector<std::string> modules =
        names_of(name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name);
    const auto refuse_ignored = [&](std::string_view listed) {
      refuse(name, "is quantised", "a plain weight",
             fmt::format("{}: 'quantization_config.ignore' contains '{}'", config_.where, listed));
    };
    if (ignored_.lists(kLinear)) refuse_ignored(kLinear);
    if (const auto module = ignored_.first_of(modules)) refuse_ignored(*module);
    const std::vector<const Group*> groups = groups_of(modules);
    if (groups.empty())
      refuse(name, "is quantised", "a plain weight",
             fmt::format("{}: no group of 'quantization_config.config_groups' has weights",
                         config_.where));
    std::optional<Contradiction> first;
    const Group* of_first = nullptr;
    for (const Group* group : groups) {
      const std::optional<Contradiction> found = contradiction(*group, *stored);
      if (!found) return;
      if (!first) {
        first = found;
        of_first = group;
      }
    }
    if (first)
      refuse(name, first->found, first->expected,
             fmt::format("{}: '{}' describes the weight; use the config.json that belongs to these "
                         "weights",
                         of_first->where, of_first->name));
  }

 private:
  [[noreturn]] void refuse(std::string_view name, std::string_view found, std::string_view expected,
                           std::string note) const {
    throw UserError(ExitCode::checkpoint,
                    {files_.path_of(name),
                     fmt::format("weight '{}' {}; expected {}", name, found, expected),
                     {std::move(note)}});
  }

  // The groups whose names or patterns contain a module of these names, else the groups of classes;
  // all groups if none does, because names of modules may differ from names in files.
  std::vector<const Group*> groups_of(const std::vector<std::string>& modules) const {
    std::vector<const Group*> named, classes, all;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const Group* group = &config_.groups[i];
      if (group->bits == 0) continue;  // only activations
      all.push_back(group);
      if (targets_[i].first_of(modules)) named.push_back(group);
      if (targets_[i].has_classes()) classes.push_back(group);
    }
    return !named.empty() ? named : !classes.empty() ? classes : all;
  }

  const io::WeightFiles& files_;
  const io::Compression& config_;
  Modules ignored_;
  std::vector<Modules> targets_;
};

// Returns the names of the tensors that the model uses, in the order of the files.
std::vector<std::string_view> used_names(const io::WeightFiles& files, const TensorMap& map) {
  std::unordered_set<std::string_view> used;
  for (const PublishedTensor& tensor : map.tensors()) used.insert(tensor.name);
  std::vector<std::string_view> out = files.names();
  std::erase_if(out, [&](std::string_view name) { return !used.contains(name); });
  return out;
}

// Methods of packed integers and of MXFP4 have no weights in f8.
void refuse_f8(const io::WeightFiles& files, const TensorMap& map, const std::string& method) {
  for (std::string_view name : used_names(files, map))
    if (!files.packed(name) && files.tensor(name).dtype == DType::f8_e4m3)
      throw UserError(
          ExitCode::checkpoint,
          {files.path_of(name),
           fmt::format("weight '{}' is {}; expected a packed or a plain weight, because "
                       "quant_method is \"{}\"",
                       name, lamina::name(DType::f8_e4m3), method),
           {fmt::format("{}: use the config.json that belongs to these weights",
                        files.compression().where)}});
}

}  // namespace

void check_compression(const io::WeightFiles& files, const TensorMap& map) {
  const std::string& method = files.compression().method;
  if (method == "gptq" || method == "awq" || method == "mxfp4")
    return refuse_f8(files, map, method);
  if (method != publishers::kCompressedTensors) return;
  const CompressionChecker checker(files);
  for (std::string_view name : used_names(files, map)) checker.check(name);
}

}  // namespace lamina::weights
