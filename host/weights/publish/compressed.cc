#include "weights/publish/compressed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/float16.h"
#include "core/round_up.h"
#include "formats/e4m3_bits.h"
#include "formats/encode.h"
#include "formats/fp8.h"
#include "lamina/names.h"
#include "publishers/formats.h"
#include "weights/quantise/rules.h"

namespace lamina::weights {
namespace {

constexpr std::string_view kVersion = "0.20.0";
constexpr const publishers::PackedNames& kNames = publishers::kCompressedTensorsNames;
constexpr std::string_view kWeight = ".weight";

// A format of compressed-tensors.
struct Scheme {
  std::string_view format;
  int bits;
  std::string_view type, strategy;
  std::string_view scale_dtype = {};  // if the layout names it
  int group_size = 0;                 // of a scale; 0: a block
};

Scheme scheme_of(const formats::BlockFormat& format) {
  if (format.name.starts_with("INT8")) return {"pack-quantized", 8, "int", "group"};
  if (format.name.starts_with("INT4")) return {"pack-quantized", 4, "int", "group"};
  if (format.name == "MXFP4") return {"mxfp4-pack-quantized", 4, "float", "group", "torch.uint8"};
  if (format.name == "NVFP4")
    return {"nvfp4-pack-quantized", 4, "float", "tensor_group", "torch.float8_e4m3fn", 16};
  LAMINA_ASSERT(format.name.starts_with("FP8"));
  return {"float-quantized", 8, "float", "channel"};
}

// Blocks of FP8 have several lengths, but files have one scale for each row.
bool are_written_alike(const formats::BlockFormat& a, const formats::BlockFormat& b) {
  const Scheme scheme = scheme_of(a), other = scheme_of(b);
  return scheme.format == other.format && scheme.bits == other.bits &&
         (scheme.strategy == "channel" || a.num_values == b.num_values);
}

// Calls use(row, group, codes) for every block.
template <typename Use>
void for_each_block(const CompressedMatrix& m, std::span<const std::byte> blocks, const Use& use) {
  const std::int64_t groups = m.columns / m.format->num_values;
  const std::byte* block = blocks.data();
  for (std::int64_t row = 0; row < m.rows; ++row)
    for (std::int64_t group = 0; group < groups; ++group) {
      use(row, group, formats::read_codes(*m.format, block));
      block += m.format->num_bytes;
    }
}

template <typename T>
void put(std::vector<std::byte>& out, std::int64_t index, T value) {
  std::memcpy(out.data() + static_cast<std::size_t>(index) * sizeof value, &value, sizeof value);
}

// Returns whether 16 values with one scale are 0, or -0.
bool is_zero_group(const formats::BlockCodes& codes, std::size_t group) {
  constexpr std::size_t kCount = 16;
  return std::ranges::all_of(std::span(codes.codes).subspan(group * kCount, kCount),
                             [](std::uint8_t code) { return (code & 7) == 0; });
}

// The smallest of the blocks, which all scales can have: others become smaller by a power of two.
// Values of 0 can have any scale.
float common_global_scale(const CompressedMatrix& m, std::span<const std::byte> blocks) {
  float out = std::numeric_limits<float>::infinity();
  for_each_block(m, blocks, [&](std::int64_t, std::int64_t, const formats::BlockCodes& codes) {
    for (std::size_t group = 0; group < codes.group_scales.size(); ++group)
      if (!is_zero_group(codes, group)) out = std::min(out, codes.scale);
  });
  return std::isinf(out) ? 1 : out;
}

void put_e4m3_scales(const CompressedMatrix& m, std::span<const std::byte> blocks,
                     std::vector<std::byte>& out) {
  const float common = common_global_scale(m, blocks);
  std::int64_t at = 0;
  for_each_block(m, blocks, [&](std::int64_t row, std::int64_t, const formats::BlockCodes& codes) {
    for (std::size_t group = 0; group < codes.group_scales.size(); ++group) {
      const float scale = is_zero_group(codes, group)
                              ? 1
                              : formats::kE4m3[codes.group_scales[group]] * (common / codes.scale);
      const std::uint8_t stored = formats::e4m3_bits(scale);
      if (formats::kE4m3[stored] != scale)
        throw UserError(
            ExitCode::usage,
            {m.module + std::string(kWeight),
             fmt::format("has no form in nvfp4 with one global scale: the values of row {} are "
                         "much smaller than others",
                         row),
             {"use mxfp4, or a rule for this matrix"}});
      put(out, at++, stored);
    }
  });
}

void put_scales(const CompressedMatrix& m, std::span<const std::byte> blocks,
                std::vector<std::byte>& out) {
  const Scheme scheme = scheme_of(*m.format);
  const std::int64_t groups = m.columns / m.format->num_values;
  for_each_block(m, blocks, [&](std::int64_t row, std::int64_t group, const auto& codes) {
    if (scheme.strategy == "channel")
      put(out, row, to_bfloat16(codes.scale).bits);
    else if (scheme.type == "float")
      put(out, row * groups + group, static_cast<std::uint8_t>(std::ilogb(codes.scale) + 127));
    else
      put(out, row * groups + group, to_bfloat16(codes.scale).bits);
  });
}

// Rows of words begin with a new word.
void put_words(const CompressedMatrix& m, std::span<const std::byte> blocks,
               std::vector<std::byte>& out) {
  const int bits = scheme_of(*m.format).bits, per_word = 32 / bits;
  const std::int64_t words = divide_up(m.columns, per_word);
  for_each_block(m, blocks, [&](std::int64_t row, std::int64_t group, const auto& codes) {
    const int count = m.format->num_values;
    for (int i = 0; i < count; i += per_word) {
      std::uint32_t word = 0;
      for (int j = 0; j < per_word; ++j)
        word |= std::uint32_t{codes.codes[static_cast<std::size_t>(i + j)]} << (j * bits);
      put(out, row * words + (group * count + i) / per_word, word);
    }
  });
}

void put_codes(const CompressedMatrix& m, std::span<const std::byte> blocks,
               std::vector<std::byte>& out) {
  const bool pairs = scheme_of(*m.format).bits == 4;
  std::int64_t at = 0;
  for_each_block(m, blocks, [&](std::int64_t, std::int64_t, const auto& codes) {
    const auto count = static_cast<std::size_t>(m.format->num_values);
    for (std::size_t i = 0; i < count; i += pairs ? 2 : 1)
      put(out, at++,
          static_cast<std::uint8_t>(pairs ? codes.codes[i] | codes.codes[i + 1] << 4
                                          : codes.codes[i]));
  });
}

// Returns the name in files and, if it differs, the name in the classes of transformers: programs
// look for either.
std::vector<std::string> names_of(const std::string& module) {
  std::vector<std::string> out{module};
  if (std::string other = publishers::module_in_classes(module); other != module)
    out.push_back(std::move(other));
  return out;
}

struct Group {
  const formats::BlockFormat* format;
  std::vector<std::string> modules;
  std::int64_t values = 0, values_of_experts = 0;
};

// The group for all "Linear" modules is the first one.
std::vector<Group> groups_of(std::span<const CompressedMatrix> matrices) {
  std::vector<Group> out;
  for (const CompressedMatrix& m : matrices) {
    auto found = std::ranges::find_if(
        out, [&](const Group& group) { return are_written_alike(*group.format, *m.format); });
    if (found == out.end()) found = out.insert(out.end(), Group{m.format, {}});
    for (std::string& name : names_of(m.module)) found->modules.push_back(std::move(name));
    found->values += m.rows * m.columns;
    if (m.of_expert) found->values_of_experts += m.rows * m.columns;
  }
  std::ranges::stable_sort(out, std::greater{},
                           [](const Group& g) { return std::pair(g.values_of_experts, g.values); });
  return out;
}

void write_group(JsonWriter& json, const Group& group, bool all_linear) {
  const Scheme scheme = scheme_of(*group.format);
  json.begin_object().key("format").value(scheme.format);
  json.key("input_activations").null().key("output_activations").null();
  json.key("targets").begin_array();
  if (all_linear)
    json.value("Linear");
  else
    for (const std::string& module : group.modules) json.value(module);
  json.end_array().key("weights").begin_object();
  json.key("dynamic").value(false).key("group_size");
  if (scheme.strategy == "channel")
    json.null();
  else
    json.value(scheme.group_size > 0 ? scheme.group_size : group.format->num_values);
  json.key("num_bits").value(static_cast<std::int64_t>(scheme.bits));
  if (!scheme.scale_dtype.empty()) json.key("scale_dtype").value(scheme.scale_dtype);
  json.key("strategy").value(scheme.strategy).key("symmetric").value(true);
  json.key("type").value(scheme.type).end_object().end_object();
}

bool is_of_expert(const decoder::Parameter& p) {
  return std::ranges::find(p.desc.axes, intern_axis(LAMINA_AXIS_EXPERTS)) != p.desc.axes.end();
}

using Parameters = std::vector<const decoder::Parameter*>;

// Returns the parameters of a published tensor, each once.
Parameters parameters_in(const decoder::Model& model, const TensorMap& map,
                         const PublishedTensor& tensor) {
  Parameters out;
  for (const int piece : tensor.pieces) {
    const decoder::Parameter& p =
        model.parameters()[map.pieces()[static_cast<std::size_t>(piece)].parameter];
    if (std::ranges::find(out, &p) == out.end()) out.push_back(&p);
  }
  return out;
}

// Refuses a published tensor that the layout of compressed-tensors cannot express. Rules of the
// caller for the same parameters would come before the advised ones, or have no effect after them.
[[noreturn]] void refuse_form(const PublishedTensor& tensor, const Parameters& parameters,
                              const std::string& what) {
  throw UserError(
      ExitCode::usage,
      {tensor.name,
       fmt::format("has no form in the layout of compressed-tensors: {}", what),
       {fmt::format("keep it as it is with these rules before all others, and remove rules that "
                    "then have no effect: {}",
                    rules_of_none("", parameters)),
        "or quantise it when it is loaded: lamina decode --quantize"}});
}

[[noreturn]] void refuse_several_formats(const PublishedTensor& tensor,
                                         const Parameters& parameters) {
  std::vector<std::string> formats;
  for (const decoder::Parameter* p : parameters)
    formats.push_back(fmt::format("'{}' {}", p->name, p->storage ? p->storage->name : "plain"));
  refuse_form(tensor, parameters,
              fmt::format("its rows belong to parameters with several formats: {}; expected one "
                          "format for all",
                          fmt::join(formats, ", ")));
}

}  // namespace

std::optional<CompressedMatrix> compressed_matrix(const decoder::Model& model, const TensorMap& map,
                                                  const PublishedTensor& tensor) {
  const auto piece_at = [&](int i) -> const Piece& {
    return map.pieces()[static_cast<std::size_t>(i)];
  };
  const Parameters parameters = parameters_in(model, map, tensor);
  const decoder::Parameter& first = *parameters.front();
  for (const decoder::Parameter* p : parameters)
    if (p->storage != first.storage) refuse_several_formats(tensor, parameters);
  if (!first.storage) return {};
  if (first.desc.role == registry::Role::embedding)
    refuse_form(tensor, parameters, "transformers reads tables of tokens as plain tensors only");
  if (!tensor.name.ends_with(kWeight) || tensor.shape.ndim() != 2)
    refuse_form(tensor, parameters, "expected a matrix with a name that ends in .weight");
  for (int i : tensor.pieces) {
    const StridedView& view = piece_at(i).view;
    const int last = view.shape.ndim() - 1;
    if (piece_at(i).changes_values() || view.shape[last] != tensor.shape[-1] ||
        view.strides[static_cast<std::size_t>(last)] != 1 || view.offset % tensor.shape[-1] != 0)
      refuse_form(tensor, parameters, "its rows are not the rows of the parameter");
  }
  std::string module = publishers::without_wrappers(tensor.name);
  module.resize(module.size() - kWeight.size());
  return CompressedMatrix{std::move(module), first.storage, tensor.shape[0], tensor.shape[1],
                          is_of_expert(first)};
}

std::optional<std::string> obstacle_of_experts(const decoder::Model& model, const TensorMap& map,
                                               std::span<const CompressedMatrix> matrices) {
  const formats::BlockFormat* first = nullptr;
  std::set<std::string_view> formats;
  for (const CompressedMatrix& m : matrices) {
    if (!m.of_expert) continue;
    if (!first) first = m.format;
    formats.insert((are_written_alike(*first, *m.format) ? first : m.format)->name);
  }
  for (const PublishedTensor& tensor : map.tensors()) {
    const decoder::Parameter& p =
        model.parameters()[map.pieces()[static_cast<std::size_t>(tensor.pieces.front())].parameter];
    if (is_of_expert(p) && p.desc.role == registry::Role::weight && !p.storage)
      formats.insert("none");
  }
  if (formats.size() == 1 && first && first->name == "NVFP4")
    return "transformers ignores the global scales of experts in nvfp4: use another format if "
           "it is to read them";
  if (formats.empty() || (formats.size() == 1 && !formats.contains("none"))) return {};
  return fmt::format("transformers needs one format for all experts, and here they have {}",
                     fmt::join(formats, " and "));
}

std::vector<std::string> plain_modules(const decoder::Model& model, const TensorMap& map,
                                       std::span<const CompressedMatrix> matrices) {
  std::set<std::string> out{std::string(publishers::kHeadModule)};
  for (const PublishedTensor& tensor : map.tensors()) {
    const Piece& piece = map.pieces()[static_cast<std::size_t>(tensor.pieces.front())];
    if (tensor.shape.ndim() == 2 && tensor.name.ends_with(kWeight) &&
        model.parameters()[piece.parameter].desc.role != registry::Role::embedding)
      for (std::string& name : names_of(publishers::without_wrappers(
               tensor.name.substr(0, tensor.name.size() - kWeight.size()))))
        out.insert(std::move(name));
  }
  for (const CompressedMatrix& m : matrices)
    for (const std::string& name : names_of(m.module)) out.erase(name);
  return {out.begin(), out.end()};
}

std::vector<io::TensorSpec> compressed_tensors(const CompressedMatrix& m) {
  const Scheme scheme = scheme_of(*m.format);
  const std::int64_t groups = m.columns / m.format->num_values;
  const auto name = [&](std::string_view suffix) { return fmt::format("{}{}", m.module, suffix); };
  if (scheme.strategy == "channel")
    return {{name(kWeight), DType::f8_e4m3, {m.rows, m.columns}},
            {name(kNames.scales), DType::bf16, {m.rows, 1}}};
  if (scheme.group_size > 0)
    return {{name(kNames.values), DType::u8, {m.rows, m.columns / 2}},
            {name(kNames.scales), DType::f8_e4m3, {m.rows, m.columns / scheme.group_size}},
            {name(kNames.global_scale), DType::f32, {1}}};
  if (scheme.type == "float")
    return {{name(kNames.values), DType::u8, {m.rows, m.columns / 2}},
            {name(kNames.scales), DType::u8, {m.rows, groups}}};
  return {{name(kNames.values), DType::i32, {m.rows, divide_up(m.columns, 32 / scheme.bits)}},
          {name(kNames.scales), DType::bf16, {m.rows, groups}},
          {name(kNames.shape), DType::i64, {2}}};
}

std::vector<std::byte> compressed_bytes(const CompressedMatrix& m, std::string_view tensor,
                                        std::span<const std::byte> blocks) {
  const auto specs = compressed_tensors(m);
  const auto spec = std::ranges::find(specs, tensor, &io::TensorSpec::name);
  LAMINA_ASSERT(spec != specs.end());
  std::vector<std::byte> out(io::num_bytes(*spec));
  if (tensor.ends_with(kNames.shape)) {
    put(out, 0, m.rows);
    put(out, 1, m.columns);
  } else if (tensor.ends_with(kNames.global_scale)) {
    put(out, 0, common_global_scale(m, blocks));
  } else if (tensor.ends_with(kNames.scales) && scheme_of(*m.format).group_size > 0) {
    put_e4m3_scales(m, blocks, out);
  } else if (tensor.ends_with(kNames.scales)) {
    put_scales(m, blocks, out);
  } else if (spec->dtype == DType::i32) {
    put_words(m, blocks, out);
  } else {
    put_codes(m, blocks, out);
  }
  return out;
}

void write_quantization_config(JsonWriter& json, std::span<const CompressedMatrix> matrices,
                               std::span<const std::string> ignored) {
  const std::vector<Group> groups = groups_of(matrices);
  LAMINA_ASSERT(!groups.empty());
  const auto format_of = [](const Group& g) { return scheme_of(*g.format).format; };
  const bool mixed = std::ranges::any_of(
      groups, [&](const Group& g) { return format_of(g) != format_of(groups.front()); });
  json.begin_object().key("config_groups").begin_object();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    json.key(fmt::format("group_{}", i));
    write_group(json, groups[i], i == 0);
  }
  json.end_object();
  json.key("format").value(mixed ? std::string_view("mixed-precision") : format_of(groups.front()));
  json.key("global_compression_ratio").null().key("ignore").begin_array();
  for (const std::string& module : ignored) json.value(module);
  json.end_array().key("kv_cache_scheme").null();
  json.key("quant_method").value(publishers::kCompressedTensors);
  json.key("quantization_status").value("compressed");
  json.key("sparsity_config").begin_object().end_object();
  json.key("transform_config").begin_object().end_object();
  json.key("version").value(kVersion).end_object();
}

}  // namespace lamina::weights
