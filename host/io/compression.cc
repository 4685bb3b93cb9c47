#include "io/compression.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/lower_case.h"
#include "core/round_up.h"
#include "publishers/formats.h"
#include "publishers/python_json.h"

namespace lamina::io {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kReadMethods =
    "\"compressed-tensors\", \"fp8\", \"mxfp4\", \"gptq\" or \"awq\"";
constexpr const char* kAlternative =
    "use the unquantised checkpoint of the same model with --quantize, a checkpoint in the format "
    "of compressed-tensors, or a GGUF file";

// Methods that are published but not read, and the reason.
constexpr std::pair<std::string_view, std::string_view> kOtherMethods[] = {
    {"aqlm", "its weights are sums of vectors from codebooks"},
    {"auto-round", "its variants pack weights in several orders"},
    {"autoround", "its variants pack weights in several orders"},
    {"bitnet", "its weights are ternary, and its layers quantise activations"},
    {"bitsandbytes", "its scales are quantised again, and their layout is in pickled states"},
    {"eetq", "its int8 weights are interleaved for one kernel of GPUs"},
    {"fbgemm_fp8", "its activations have an upper bound that changes the results"},
    {"higgs", "its weights are rotated and come from a grid of vectors"},
    {"hqq", "the packing of each module is in tensors of metadata beside it"},
    {"modelopt", "its scales have other names and another definition"},
    {"quanto", "its tensors are stored with the state of Python classes"},
    {"quark", "its layouts depend on the exporter"},
    {"spqr", "its weights have sparse outliers beside the groups"},
    {"torchao", "its tensors are pickled Python classes"},
    {"vptq", "its weights are vectors from codebooks"},
};

bool is_given(const JsonValue& value) { return value && !value.is_null(); }

bool is_true(const JsonValue& section, std::string_view key) {
  const JsonValue value = section.find(key);
  return is_given(value) && value.as_bool();
}

std::string text(const JsonValue& section, std::string_view key, std::string preset = {}) {
  const JsonValue value = section.find(key);
  return value && !value.is_null() ? std::string(value.as_string()) : preset;
}

// Returns the word of a key, which must be one of `words` in any case; `preset` if the key is
// missing.
std::string choice(const JsonValue& section, std::string_view key,
                   std::initializer_list<std::string_view> words, std::string preset) {
  std::string out = lower_case(text(section, key, std::move(preset)));
  if (const JsonValue value = section.find(key);
      value && !value.is_null() && std::ranges::find(words, out) == words.end())
    value.fail(fmt::format("must be {}; got {}", fmt::join(words, " or "), value.describe()),
               {kAlternative});
  return out;
}

std::vector<std::string> strings(const JsonValue& section, std::string_view key) {
  std::vector<std::string> out;
  if (const JsonValue list = section.find(key); list && !list.is_null())
    for (const JsonValue item : list.elements()) out.emplace_back(item.as_string());
  return out;
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t out = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && at == end ? std::optional(out) : std::nullopt;
}

// Reads [32, 32], or "32x32" of older versions.
Compression::Block read_block(const JsonValue& block) {
  std::vector<std::int64_t> sizes;
  if (block.is_string()) {
    const std::string_view text = block.as_string();
    const std::size_t x = std::min(text.find('x'), text.size());
    for (const std::string_view part :
         {text.substr(0, x), text.substr(std::min(x + 1, text.size()))})
      if (const auto size = number_in(part)) sizes.push_back(*size);
  } else {
    for (JsonValue size : block.elements()) sizes.push_back(size.as_int64());
  }
  if (sizes.size() != 2 || std::ranges::min(sizes) <= 0)
    block.fail("must be two positive numbers: the rows and columns of a block");
  return {sizes[0], sizes[1]};
}

constexpr std::string_view kReadFormats[] = {
    "pack-quantized",       "int-quantized",        "float-quantized", "mxfp8-quantized",
    "mxfp4-pack-quantized", "nvfp4-pack-quantized", "naive-quantized"};

void check_format(const JsonValue& format) {
  if (std::ranges::find(kReadFormats, format.as_string()) == std::end(kReadFormats))
    format.fail(fmt::format("must be pack-quantized, int-quantized, float-quantized, "
                            "mxfp8-quantized, mxfp4-pack-quantized or nvfp4-pack-quantized, the "
                            "formats that lamina reads; got {}",
                            format.describe()),
                {kAlternative});
}

// A group without a module would describe no weight.
std::vector<std::string> read_targets(const JsonValue& group) {
  const JsonValue targets = group.at("targets");
  if (!targets.is_array() || targets.size() == 0)
    targets.fail(fmt::format("must be a list of modules or classes; got {}", targets.describe()));
  return strings(group, "targets");
}

Compression::Group read_group(const JsonValue& value, const std::string& common) {
  Compression::Group group{.where = value.where(), .name = value.path()};
  group.targets = read_targets(value);
  group.format = common;
  if (const JsonValue format = value.find("format"); format && !format.is_null()) {
    check_format(format);
    group.format = format.as_string();
  }
  const JsonValue weights = value.find("weights");
  if (!weights || weights.is_null()) {
    group.bits = 0;  // only activations
    return group;
  }
  if (const JsonValue bits = weights.find("num_bits")) {
    if (bits.as_int64() != 4 && bits.as_int64() != 8)
      bits.fail(fmt::format("must be 4 or 8, got {}", bits.describe()), {kAlternative});
    group.bits = static_cast<int>(bits.as_int64());
  }
  group.is_float = choice(weights, "type", {"int", "float"}, "int") == "float";
  if (const JsonValue dynamic = weights.find("dynamic");
      dynamic && !dynamic.is_null() && !(dynamic.is_bool() && !dynamic.as_bool()))
    dynamic.fail(fmt::format("must be false, because the scales of weights are stored; got {}",
                             dynamic.describe()),
                 {kAlternative});
  if (const JsonValue symmetric = weights.find("symmetric")) group.symmetric = symmetric.as_bool();
  group.strategy =
      choice(weights, "strategy", {"tensor", "channel", "group", "block", "tensor_group"}, "");
  if (const JsonValue size = weights.find("group_size"); is_given(size)) {
    group.group_size = std::max<std::int64_t>(0, size.as_int64());
    if (group.group_size > 0 &&
        (group.strategy == "tensor" || group.strategy == "channel" || group.strategy == "block"))
      size.fail(fmt::format("must be null with the strategy \"{}\", which has no groups; got {}",
                            group.strategy, size.describe()));
  }
  const JsonValue order = weights.find("actorder");
  if (order && order.is_bool()) {
    group.reordered = order.as_bool();
  } else {
    const std::string name =
        choice(weights, "actorder", {"group", "dynamic", "weight", "static"}, "");
    group.reordered = name == "group" || name == "dynamic";
  }
  if (const JsonValue block = weights.find("block_structure"); is_given(block)) {
    group.block = read_block(block);
    if (group.strategy != "block")
      block.fail(
          fmt::format("must be null without the strategy \"block\"; got {}", block.describe()));
  }
  return group;
}

void read_compressed_tensors(const JsonValue& section, Compression& out) {
  std::string common;
  if (const JsonValue format = section.find("format"); format && !format.is_null()) {
    common = format.as_string();
    if (common == "mixed-precision")
      common.clear();  // the groups name theirs
    else
      check_format(format);
  }
  choice(section, "quantization_status", {"initialized", "calibration", "frozen", "compressed"},
         "compressed");
  const JsonValue sparsity = section.find("sparsity_config");
  if (sparsity && sparsity.is_object() && text(sparsity, "format", "dense") != "dense")
    sparsity.at("format").fail(
        fmt::format("must be \"dense\", because lamina reads no sparse tensors; got {}",
                    sparsity.at("format").describe()),
        {kAlternative});
  // {"config_groups": {}} is as empty as {}.
  if (const JsonValue rotations = section.find("transform_config");
      rotations && rotations.is_object())
    for (const auto& [name, member] : rotations.members())
      if (name != "config_groups" || !member.is_object() || member.size() > 0)
        rotations.fail("must be empty: lamina does not rotate activations", {kAlternative});
  for (const auto& [name, group] : section.at("config_groups").members())
    out.groups.push_back(read_group(group, common));
  std::vector<Compression::Block> blocks;
  for (const Compression::Group& group : out.groups)
    if (group.strategy == "block" && std::ranges::find(blocks, group.block) == blocks.end())
      blocks.push_back(group.block);
  if (!blocks.empty()) out.blocks = std::move(blocks);
  out.ignored = strings(section, "ignore");
}

// Returns the value that programs write under one of two keys; empty if both are missing or null.
JsonValue under_either(const JsonValue& section, std::string_view key, std::string_view other) {
  const JsonValue first = section.find(key), second = section.find(other);
  if (is_given(first) && is_given(second) &&
      lower_case(first.describe()) != lower_case(second.describe()))
    first.fail(fmt::format("is {}, but '{}' beside it is {}; expected one value for both",
                           first.describe(), other, second.describe()),
               {"use the config.json that belongs to these weights"});
  return is_given(first) ? first : is_given(second) ? second : JsonValue();
}

// The same for a value that must exist.
JsonValue required_under_either(const JsonValue& section, std::string_view key,
                                std::string_view other) {
  const JsonValue value = under_either(section, key, other);
  return value ? value : section.at(key);
}

int read_bits(const JsonValue& bits, std::initializer_list<int> allowed) {
  const std::int64_t got = bits.as_int64();
  if (std::ranges::find(allowed, got) == allowed.end())
    bits.fail(fmt::format("must be {}, got {}", allowed.size() > 1 ? "4 or 8" : "4", got),
              {kAlternative});
  return static_cast<int>(got);
}

std::int64_t read_group_size(const JsonValue& size) {
  const std::int64_t got = size.as_int64();
  if (got != -1 && got <= 0)
    size.fail(fmt::format("must be positive, or -1 for whole rows; got {}", got));
  return got;
}

// Refuses other bits or groups for some modules. Modules with "-:" are not quantised.
void check_dynamic(const JsonValue& dynamic) {
  if (!is_given(dynamic)) return;
  if (!dynamic.is_object())
    dynamic.fail(fmt::format("must be an object of patterns; got {}", dynamic.describe()));
  for (const auto& [pattern, changes] : dynamic.members())
    if (!pattern.starts_with("-:") && is_given(changes) &&
        !(changes.is_object() && changes.size() == 0))
      changes.fail(
          "must be empty: lamina reads one number of bits and one group size for all "
          "modules of GPTQ",
          {kAlternative});
}

void read_gptq(const JsonValue& section, Compression& out) {
  out.bits = read_bits(section.at("bits"), {4, 8});
  out.group_size = read_group_size(section.at("group_size"));
  out.symmetric = is_true(section, "sym");
  out.reordered = is_true(section, "desc_act");
  const JsonValue variant = under_either(section, "checkpoint_format", "format");
  const std::string_view name = variant ? variant.as_string() : "gptq";
  if (name != "gptq" && name != "gptq_v2")
    variant.fail(fmt::format("must be \"gptq\" or \"gptq_v2\", the orders of GPTQ that "
                             "lamina reads; got \"{}\"",
                             name),
                 {kAlternative});
  out.zero_points_minus_one = name == "gptq";
  if (is_true(section, "is_marlin_format"))
    section.at("is_marlin_format")
        .fail("must be false: the order of Marlin is for one kernel", {kAlternative});
  check_dynamic(section.find("dynamic"));
}

void read_awq(const JsonValue& section, Compression& out) {
  out.bits = read_bits(required_under_either(section, "bits", "w_bit"), {4});
  out.group_size = read_group_size(required_under_either(section, "group_size", "q_group_size"));
  const JsonValue variant = under_either(section, "version", "format");
  if (variant && lower_case(variant.as_string()) != "gemm")
    variant.fail(fmt::format("must be \"gemm\", the order of AWQ that lamina reads; got {}",
                             variant.describe()),
                 {kAlternative});
  if (text(section, "backend") == "llm-awq")
    section.at("backend").fail(
        "must not be \"llm-awq\", whose weights have another order than \"gemm\"", {kAlternative});
  if (const JsonValue zero = section.find("zero_point"); zero && !zero.is_null() && !zero.as_bool())
    zero.fail("must be true: weights in the order \"gemm\" have zero points", {kAlternative});
}

[[noreturn]] void refuse_method(const JsonValue& method) {
  const auto* const other = std::ranges::find(
      kOtherMethods, method.as_string(), &std::pair<std::string_view, std::string_view>::first);
  std::vector<std::string> notes;
  if (other != std::end(kOtherMethods))
    notes.push_back(fmt::format("{} cannot be read: {}", other->first, other->second));
  notes.emplace_back(kAlternative);
  method.fail(fmt::format("must be {}, the methods that lamina reads; got {}", kReadMethods,
                          method.describe()),
              std::move(notes));
}

}  // namespace

Shape scales_shape(Shape values, const Compression::Block& block) {
  values[-2] = divide_up(values[-2], block.rows);
  values[-1] = divide_up(values[-1], block.columns);
  return values;
}

JsonValue quantization_config(const JsonValue& config) {
  if (!config.is_object()) return {};
  if (const JsonValue section = config.find(publishers::kQuantizationConfig);
      section && !section.is_null())
    return section;
  for (const auto& [key, value] : config.members())
    if (publishers::is_text_config(key))
      if (const JsonValue section = quantization_config(value)) return section;
  return {};
}

Compression read_compression(const std::string& directory) {
  Compression out;
  const std::string path = (fs::path(directory) / "config.json").string();
  if (std::error_code ec; !fs::exists(path, ec)) return out;
  const JsonDocument config = JsonDocument::read(path, publishers::kPythonJson);
  const JsonValue section = quantization_config(config.root());
  if (!section) return out;
  const JsonValue method = section.at("quant_method");
  out.method = method.as_string();
  out.where = section.where();
  if (out.method == publishers::kCompressedTensors)
    read_compressed_tensors(section, out);
  else if (out.method == "gptq")
    read_gptq(section, out);
  else if (out.method == "awq")
    read_awq(section, out);
  else if (out.method != "fp8" && out.method != "mxfp4")
    refuse_method(method);
  if (const JsonValue block = section.find("weight_block_size"); block && !block.is_null())
    out.blocks = {read_block(block)};
  return out;
}

}  // namespace lamina::io
