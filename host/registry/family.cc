// Copies and checks the declarations of a family when its plugin is loaded.
#include "registry/family.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "config/model_keys.h"
#include "config/published_keys.h"
#include "registry/abi_ops.h"
#include "registry/custom_ops.h"
#include "registry/known_numbers.h"

namespace lamina::registry {
namespace {

using config::Type;

constexpr std::string_view kHostKeys[] = {LAMINA_CONFIG_VOCAB_SIZE, LAMINA_CONFIG_HIDDEN_SIZE,
                                          LAMINA_CONFIG_NUM_LAYERS};

std::optional<double> limit(const lamina_value_t& from, std::string_view what) {
  const auto value = abi::value(from, what);
  if (!value) return std::nullopt;
  if (const auto* integer = value->get_if<std::int64_t>()) return static_cast<double>(*integer);
  if (const auto* number = value->get_if<double>()) return *number;
  abi::refuse("{} must be a number", what);
}

void set_type(config::Key& key, std::uint32_t kind, std::string_view what) {
  switch (kind) {
    case LAMINA_KIND_INT:
      key.type = Type::integer;
      return;
    case LAMINA_KIND_FLOAT:
      key.type = Type::number;
      return;
    case LAMINA_KIND_BOOL:
      key.type = Type::boolean;
      return;
    case LAMINA_KIND_STRING:
      key.type = Type::string;
      return;
    case LAMINA_KIND_INT_LIST:
      key.type = Type::list, key.element = Type::integer;
      return;
    case LAMINA_KIND_FLOAT_LIST:
      key.type = Type::list, key.element = Type::number;
      return;
    case LAMINA_KIND_STRING_LIST:
      key.type = Type::list, key.element = Type::string;
      return;
    default:
      abi::refuse("{} has kind {}; expected 1 to 7", what, kind);
  }
}

ModelKey read_key(const lamina_key_t& from) {
  constexpr std::uint32_t kKnown = LAMINA_KEY_REQUIRED | LAMINA_KEY_HF_ONLY | LAMINA_KEY_IGNORED |
                                   LAMINA_KEY_NULL_IS_ZERO | LAMINA_KEY_PER_LAYER | LAMINA_KEY_HOT |
                                   LAMINA_KEY_ABOVE_MIN | LAMINA_KEY_BELOW_MAX;
  ModelKey out;
  out.key.name = abi::text(from.name, "a config key");
  const std::string what = "key '" + out.key.name + "'";
  // Names that occur only in config.json are chosen by others, eg: "_sliding_window_pattern".
  if (out.key.name.empty() ||
      (!(from.flags & (LAMINA_KEY_HF_ONLY | LAMINA_KEY_IGNORED)) && !is_plain_name(out.key.name)))
    abi::refuse(
        "{}: a name consists of at most {} letters, digits, '_', '-' and '.', beginning with a "
        "letter",
        what, kMaxName);
  abi::check_flags(from.flags, kKnown, what);
  if (from.since > LAMINA_ABI_MINOR)
    throw abi::ContractError(LAMINA_ERROR_ABI, fmt::format("{} requires a host with plugin ABI "
                                                           "{}.{}",
                                                           what, LAMINA_ABI_MAJOR, from.since));
  out.kind = from.type;
  set_type(out.key, from.type, what);
  out.key.doc = abi::text(from.doc, what);
  out.key.aliases = abi::texts(from.aliases, what);
  out.key.preset = abi::value(from.fallback, what);
  if (out.key.preset && !abi::has_kind(*out.key.preset, out.kind))
    abi::refuse("the default of {} must be {}", what, abi::kind_name(out.kind));
  out.key.min = limit(from.min, what + ", min");
  out.key.max = limit(from.max, what + ", max");
  out.key.min_excluded = from.flags & LAMINA_KEY_ABOVE_MIN;
  out.key.max_excluded = from.flags & LAMINA_KEY_BELOW_MAX;
  out.key.choices = abi::texts(from.choices, what);
  out.key.required = from.flags & LAMINA_KEY_REQUIRED;
  out.key.hot = from.flags & LAMINA_KEY_HOT;
  out.same_as = abi::text(from.same_as, what);
  if (!out.same_as.empty() && !out.key.preset) out.key.preset_text = "as " + out.same_as;
  out.hf_name = abi::text(from.hf_name, what);
  if (out.hf_name.empty()) out.hf_name = out.key.name;
  out.json_only = from.flags & LAMINA_KEY_HF_ONLY;
  out.ignored = from.flags & LAMINA_KEY_IGNORED;
  out.null_is_zero = from.flags & LAMINA_KEY_NULL_IS_ZERO;
  out.per_layer = from.flags & LAMINA_KEY_PER_LAYER;
  if (out.key.doc.empty() && !out.ignored)
    abi::refuse("{} has no doc line, which every key with an effect needs", what);
  if (out.key.preset) {
    const auto accepted = config::check_value(out.key, out.key.name, *out.key.preset, "");
    if (const auto* refused = std::get_if<ErrorText>(&accepted))
      abi::refuse("the default of {} is outside its limits: {}", what, refused->what);
    out.key.preset = abi::in_kind(*out.key.preset, out.kind);
  }
  return out;
}

std::uint32_t kind_of(const config::Key& key) {
  const bool list = key.type == Type::list;
  switch (list ? key.element : key.type) {
    case Type::integer:
      return list ? LAMINA_KIND_INT_LIST : LAMINA_KIND_INT;
    case Type::number:
      return list ? LAMINA_KIND_FLOAT_LIST : LAMINA_KIND_FLOAT;
    case Type::boolean:
      return LAMINA_KIND_BOOL;
    default:
      return list ? LAMINA_KIND_STRING_LIST : LAMINA_KIND_STRING;
  }
}

// Returns the key of this name that has an effect, or null.
const ModelKey* effective(const std::vector<ModelKey>& keys, std::string_view name) {
  const auto at = std::ranges::find_if(
      keys, [&](const ModelKey& key) { return key.key.name == name && !key.ignored; });
  return at == keys.end() ? nullptr : &*at;
}

// Returns whether a key of kind `kind` can have the value of `other`.
bool can_be_same(std::uint32_t kind, const ModelKey& other) {
  return kind == other.kind || (kind == LAMINA_KIND_FLOAT && other.kind == LAMINA_KIND_INT) ||
         (kind == LAMINA_KIND_FLOAT_LIST && other.kind == LAMINA_KIND_INT_LIST);
}

// Adds the keys that every family has. A key that the family declares itself is not added, because
// a family may be older than the host's key: the family then implements it, and the host's
// implementation is off. The engram_* keys are added together or not at all.
void add_host_keys(std::vector<ModelKey>& keys, const std::set<std::string>& declared) {
  bool has_engram = false;
  for (const config::Key& key : config::host_model_keys())
    has_engram |= config::is_engram_key(key.name) && declared.contains(key.name);
  for (const config::Key& key : config::host_model_keys()) {
    if (config::is_engram_key(key.name) ? has_engram : declared.contains(key.name)) continue;
    ModelKey& added = keys.emplace_back();
    added.key = key;
    added.kind = kind_of(key);
    added.hf_name = fmt::format("{}{}", config::kOwnObject, key.name);
    added.key.aliases.push_back(added.hf_name);
    added.host = true;
    const ModelKey* eps = effective(keys, config::kNormEps);
    if (key.name != config::kEngramNormEps || !eps || !can_be_same(added.kind, *eps)) continue;
    added.same_as = config::kNormEps;
    added.key.preset = {};
    added.key.preset_text = "as " + added.same_as;
  }
}

// Returns whether the name is declared for the object of our keys, and ignored elsewhere.
bool ignored_beside_own(const std::vector<ModelKey>& keys, const std::string& name) {
  int own = 0, ignored = 0, all = 0;
  for (const ModelKey& key : keys) {
    if (key.key.name != name) continue;
    ++all;
    own += !key.ignored && key.hf_name.starts_with(config::kOwnObject);
    ignored += key.ignored;
  }
  return all == 2 && own == 1 && ignored == 1;
}

std::vector<ModelKey> read_keys(const lamina_span_t& from) {
  std::vector<ModelKey> out;
  std::set<std::string> names;
  for (const auto& key : abi::copies<lamina_key_t>(from, "lamina_key_t")) {
    out.push_back(read_key(key));
    const std::string& name = out.back().key.name;
    const bool again = !names.insert(name).second;
    if (again && !ignored_beside_own(out, name))
      abi::refuse("the key '{}' is declared twice", out.back().key.name);
  }
  for (const ModelKey& key : out) {
    if (key.same_as.empty()) continue;
    const ModelKey* other = effective(out, key.same_as);
    if (other == nullptr)
      abi::refuse("the key '{}' is the same as '{}', which is not declared", key.key.name,
                  key.same_as);
    if (!can_be_same(key.kind, *other))
      abi::refuse("the key '{}' is the same as '{}', but one must be {} and the other {}",
                  key.key.name, key.same_as, abi::kind_name(key.kind), abi::kind_name(other->kind));
  }
  for (std::string_view name : kHostKeys)
    if (std::none_of(out.begin(), out.end(), [&](const ModelKey& key) {
          return key.key.name == name && key.kind == LAMINA_KIND_INT && !key.ignored;
        }))
      abi::refuse("the key '{}', which every family must declare as an integer, is missing", name);
  add_host_keys(out, names);
  return out;
}

std::vector<Block> read_blocks(const lamina_span_t& from) {
  std::vector<Block> out;
  for (const lamina_block_t* source : abi::elements<lamina_block_t>(from, "lamina_block_t")) {
    const lamina_block_t block = abi::copy(source, "lamina_block_t");
    abi::check_flags(block.flags, 0, "a block");
    Block made{
        .id = block.id, .name = abi::name(block.name, "the name of a block"), .source = source};
    if (made.id == 0) abi::refuse("block '{}' has id 0; ids begin with 1", made.name);
    if (block.build == nullptr) abi::refuse("block '{}' has no build function", made.name);
    for (const Block& other : out) {
      if (other.id == made.id)
        abi::refuse("blocks '{}' and '{}' have the same id {}", other.name, made.name, made.id);
      if (other.name == made.name) abi::refuse("two blocks are named '{}'", made.name);
    }
    out.push_back(std::move(made));
  }
  if (out.empty()) abi::refuse("it has no block");
  return out;
}

Transform read_transform(const lamina_transform_t& step, const std::string& what) {
  if (!known_numbers(LAMINA_CAPABILITY_TRANSFORM).contain(step.kind))
    throw abi::ContractError(
        LAMINA_ERROR_UNSUPPORTED,
        fmt::format("{} has transform {}, which is unknown to this host", what, step.kind));
  if (!std::isfinite(step.number) || (step.kind == LAMINA_TRANSFORM_MUL && step.number == 0))
    abi::refuse("{} has a transform by {}, which is not invertible", what, step.number);
  if (step.dim < -LAMINA_MAX_DIMS || step.dim >= LAMINA_MAX_DIMS)
    abi::refuse("{} has a transform of dim {}; the maximum number of dims is {}", what, step.dim,
                LAMINA_MAX_DIMS);
  if (step.kind == LAMINA_TRANSFORM_STRIDED && step.index >= step.count)
    abi::refuse(
        "{} takes part {} of {} interleaved ones, which are numbered from "
        "0",
        what, step.index, step.count);
  if (step.kind == LAMINA_TRANSFORM_MERGE && step.count == 0)
    abi::refuse("{} merges a dim of size 0 into dim {}; set count to its size", what, step.dim);
  return {static_cast<Transform::Kind>(step.kind - 1), step.number, step.dim, step.index,
          step.count};
}

TensorRow read_row(const lamina_hf_tensor_t& from) {
  TensorRow out;
  out.published = abi::text(from.hf, "a published name");
  const std::string what = "the tensor row '" + out.published + "'";
  if (out.published.empty()) abi::refuse("a tensor row has no published name");
  abi::check_flags(
      from.flags,
      LAMINA_HF_OPTIONAL | LAMINA_HF_TIED | LAMINA_HF_IGNORE | LAMINA_HF_BEYOND | LAMINA_HF_SURPLUS,
      what);
  out.block = from.block;
  out.param = abi::text(from.param, what);
  out.optional = from.flags & LAMINA_HF_OPTIONAL;
  out.tied = from.flags & LAMINA_HF_TIED;
  out.ignore = from.flags & LAMINA_HF_IGNORE;
  out.beyond = from.flags & LAMINA_HF_BEYOND;
  out.surplus = from.flags & LAMINA_HF_SURPLUS;
  if (out.ignore != out.param.empty())
    abi::refuse("{} {}", what,
                out.ignore ? "is ignored but names a parameter" : "names no parameter");
  if (!out.ignore && out.published.find('*') != std::string::npos)
    abi::refuse("{} has a '*', which is allowed only in ignored rows", what);
  const bool layered = out.published.find("{L}") != std::string::npos ||
                       out.published.find("{P}") != std::string::npos;
  if (out.beyond && !(out.ignore && layered))
    abi::refuse(
        "{} is for layers after the last; it must be ignored and contain {{L}} or "
        "{{P}}",
        what);
  for (const auto& step : abi::copies<lamina_transform_t>(from.transforms, what))
    out.transforms.push_back(read_transform(step, what));
  return out;
}

}  // namespace

std::int64_t PlanSpec::num_layers() const {
  std::int64_t out = 0;
  for (const SegmentSpec& segment : segments) out += segment.num_layers();
  return out;
}

double NormSpec::initial_weight() const {
  for (const auto& [name, value] : attrs)
    if (name == "offset") return 1 - std::get<double>(value);
  return 1;
}

void Family::fail(std::string what, std::vector<std::string> notes) const {
  notes.push_back(plugin_->path);
  throw PluginError(
      {fmt::format("plugin '{}' {}, family '{}'", plugin_->id, plugin_->version, names_.name),
       std::move(what), std::move(notes)});
}

Family::Family(const lamina_family& source, std::shared_ptr<const PluginIdentity> plugin,
               std::shared_ptr<const CustomOps> ops)
    : plugin_(std::move(plugin)),
      custom_ops_(ops ? std::move(ops) : std::make_shared<const CustomOps>()),
      source_(&source) {
  names_.name.assign(1, '?');
  try {
    const lamina_family_t family = abi::copy(&source, "lamina_family_t");
    names_.name = abi::name(family.name, "the name of a family");
    abi::check_flags(family.flags, 0, "the family");
    names_.doc = abi::text(family.doc, "doc");
    names_.aliases = abi::texts(family.aliases, "aliases");
    names_.hf_model_types = abi::texts(family.hf_model_types, "hf_model_types");
    names_.hf_architectures = abi::texts(family.hf_architectures, "hf_architectures");
    if (family.plan == nullptr) abi::refuse("the plan function is missing");
    if (family.options == nullptr) abi::refuse("the options function is missing");
    keys_ = std::make_shared<const std::vector<ModelKey>>(read_keys(family.keys));
    blocks_ = read_blocks(family.blocks);
    tensor_prefixes_ = abi::texts(family.hf_prefixes, "hf_prefixes");
    for (const auto& row :
         abi::copies<lamina_hf_tensor_t>(family.hf_tensors, "lamina_hf_tensor_t")) {
      tensor_rows_.push_back(read_row(row));
      const std::uint32_t id = tensor_rows_.back().block;
      if (id != 0 && std::none_of(blocks_.begin(), blocks_.end(),
                                  [&](const Block& block) { return block.id == id; }))
        abi::refuse("the tensor row '{}' is for block {}, which is not declared",
                    tensor_rows_.back().published, id);
    }
  } catch (const abi::ContractError& error) {
    fail(error.what());
  }
}

const ModelKey* Family::find_key(std::string_view name) const {
  for (const ModelKey& key : *keys_)
    if (key.key.name == name && !key.ignored) return &key;
  return nullptr;
}

const ModelKey* Family::find_own_key(std::string_view name) const {
  const ModelKey* key = find_key(name);
  return key && !key->host ? key : nullptr;
}

const Block& Family::block(std::uint32_t id) const {
  const auto at = std::find_if(blocks_.begin(), blocks_.end(),
                               [&](const Block& block) { return block.id == id; });
  LAMINA_ASSERT(at != blocks_.end());
  return *at;
}

}  // namespace lamina::registry
