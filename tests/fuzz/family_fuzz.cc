// Tables of a plugin: a family with any keys, blocks and rows of tensors, then the replies of its
// functions to a config. The host refuses it with a message, or has a family that reads a config, a
// plan and options.
#include <memory>
#include <string>
#include <vector>

#include "config/raw.h"
#include "fuzz/choices.h"
#include "fuzz/fuzz.h"
#include "lamina/abi.h"
#include "lamina/ext/layer_sharing.h"
#include "lamina/ext/mtp.h"
#include "ops/registry.h"
#include "registry/abi_read.h"
#include "registry/extensions.h"
#include "registry/family.h"

namespace lamina::fuzz {
namespace {

using registry::abi::str;

constexpr std::string_view kNames[] = {LAMINA_CONFIG_VOCAB_SIZE,
                                       LAMINA_CONFIG_HIDDEN_SIZE,
                                       LAMINA_CONFIG_NUM_LAYERS,
                                       LAMINA_CONFIG_MAX_POSITIONS,
                                       "head_dim",
                                       "rope_scaling.factor",
                                       "engram_layers",
                                       "norm_eps",
                                       "layer_types"};
constexpr std::string_view kPublished[] = {"model.layers.{L}.mlp.{E}.up.weight",
                                           "model.layers.{L}.wq.weight",
                                           "mtp.{P}.wq.weight",
                                           "embed.weight",
                                           "{L}{L}{E}",
                                           "{"};
constexpr std::string_view kParams[] = {"wq.weight", "embed.weight", "norm.weight"};
constexpr std::string_view kWords[] = {"silu", "gelu", "any", "one"};
constexpr std::string_view kBadTexts[] = {"",   "_x",   "a..b", "a.*.b",   "**",
                                          "\n", "\xff", "{",    "\x1b[2J", "vocab_size.x"};

// Structs and lists of a plugin, kept while they may be read. The input gives the maximum number of
// faults: data after the first fault is rarely read.
class Tables {
 public:
  explicit Tables(Bytes& bytes) : bytes_(bytes), faults_left_(bytes.below(4)) {}

  bool is_wrong() {
    if (faults_left_ == 0 || below(32) != 31) return false;
    --faults_left_;
    return true;
  }
  std::uint32_t below(std::size_t count) { return static_cast<std::uint32_t>(bytes_.below(count)); }
  double number() { return is_wrong() ? bytes_.pick(kNumbers) : 0.5 * below(5); }
  std::int64_t integer() { return is_wrong() ? bytes_.pick(kIntegers) : below(9); }
  std::uint32_t any_count() { return static_cast<std::uint32_t>(bytes_.pick(kIntegers)); }
  // A flag below `count`, or 0; sometimes an invalid one.
  std::uint32_t flag(std::size_t count) {
    if (is_wrong()) return 1u << below(32);
    return below(3) == 0 ? 1u << below(count) : 0;
  }
  template <typename List>
  lamina_str_t text(const List& list) {
    if (is_wrong()) return below(8) == 0 ? lamina_str_t{nullptr, 1} : str(bytes_.pick(kBadTexts));
    return str(bytes_.pick(list));
  }

  // A zeroed struct with a size field, which is usually right.
  template <typename T>
  T made() {
    T out{};
    out.size = is_wrong() ? below(sizeof(T) + 1) : sizeof(T);
    if constexpr (requires { out._pad0; })
      if (is_wrong()) out._pad0 = below(2);
    return out;
  }
  // Keeps `list`; sometimes the count is too small.
  template <typename T>
  lamina_span_t span(std::vector<T> list) {
    auto kept = std::make_shared<std::vector<T>>(std::move(list));
    kept_.push_back(kept);
    lamina_span_t out{kept->data(), static_cast<std::uint32_t>(kept->size()), sizeof(T)};
    if (is_wrong()) out.stride = below(sizeof(T) + 1);
    if (is_wrong()) out.ptr = nullptr;
    return out;
  }
  template <typename Make>
  auto list(std::size_t limit, Make make) {
    std::vector<decltype(make())> out;
    for (std::size_t i = below(limit + 1); i > 0; --i) out.push_back(make());
    return span(std::move(out));
  }
  template <typename List>
  lamina_span_t texts(const List& of) {
    return list(3, [&] { return text(of); });
  }
  template <typename T>
  const T* pointer(T value) {
    auto kept = std::make_shared<T>(value);
    kept_.push_back(kept);
    return is_wrong() ? nullptr : kept.get();
  }

  lamina_value_t value(std::uint32_t kind) {
    lamina_value_t out{};
    out.type = is_wrong() ? below(10) : kind;
    switch (out.type) {
      case LAMINA_KIND_FLOAT:
        out.v.f = number();
        break;
      case LAMINA_KIND_STRING:
        out.v.s = text(kWords);
        break;
      case LAMINA_KIND_INT_LIST:
        out.v.list = list(4, [&] { return integer(); });
        break;
      case LAMINA_KIND_FLOAT_LIST:
        out.v.list = list(4, [&] { return number(); });
        break;
      case LAMINA_KIND_STRING_LIST:
        out.v.list = texts(kWords);
        break;
      default:
        out.v.i = out.type == LAMINA_KIND_BOOL && !is_wrong() ? below(2) : integer();
    }
    return out;
  }
  lamina_value_t bound(std::int64_t usual) {
    if (is_wrong()) return value(1 + below(7));
    lamina_value_t out{};
    if (below(4) != 0) return out;
    out.type = LAMINA_KIND_INT;
    out.v.i = usual;
    return out;
  }

  lamina_key_t key(std::string_view name, std::uint32_t kind) {
    auto out = made<lamina_key_t>();
    out.type = is_wrong() ? below(10) : kind;
    out.flags = flag(8);
    if (is_wrong()) out.since = below(32);
    out.name = is_wrong() ? text(kBadTexts) : str(name);
    out.doc = str("A key.");
    if (below(4) == 0) out.aliases = texts(kNames);
    if (below(2)) out.fallback = value(out.type);
    const bool is_number = out.type == LAMINA_KIND_INT || out.type == LAMINA_KIND_FLOAT;
    if (below(8) == 0) {
      if (is_wrong())
        out.same_as = text(kNames);
      else if (is_number)
        out.same_as = str(LAMINA_CONFIG_HIDDEN_SIZE);
    }
    out.min = bound(-1);
    out.max = bound(1 << 20);
    if (is_wrong()) out.choices = texts(kWords);
    if (below(8) == 0) out.hf_name = text(kNames);
    return out;
  }
  lamina_transform_t transform() {
    auto out = made<lamina_transform_t>();
    out.kind = 1 + below(is_wrong() ? 16 : 9);
    out.number = 1 + number();
    out.dim = is_wrong() ? integer() : below(4);
    out.count = is_wrong() ? any_count() : 1 + below(4);
    out.index = is_wrong() ? any_count() : below(out.count);
    return out;
  }
  lamina_hf_tensor_t row() {
    auto out = made<lamina_hf_tensor_t>();
    out.block = is_wrong() ? below(4) : below(2);
    out.flags = flag(3);
    if ((out.flags & LAMINA_HF_IGNORE) == 0 || is_wrong()) out.param = text(kParams);
    out.hf = text(kPublished);
    if (below(2)) out.transforms = list(4, [&] { return transform(); });
    return out;
  }
  lamina_setting_t setting() { return {text(kNames), value(1 + below(LAMINA_KIND_STRING_LIST))}; }
  lamina_attr_t attr() { return {1 + below(4), 0, value(1 + below(4))}; }

 private:
  Bytes& bytes_;
  std::size_t faults_left_;
  std::vector<std::shared_ptr<void>> kept_;
};

// Replies of the family's functions, from the rest of the input.
Tables* answers = nullptr;

lamina_status_t derive(void*, const lamina_config_t* config, lamina_reply_t* reply) {
  Tables& t = *answers;
  lamina_value_t value{};
  config->api->get(config, t.is_wrong() ? t.text(kNames) : str(LAMINA_CONFIG_VOCAB_SIZE), &value);
  for (std::uint32_t i = t.below(2); i > 0; --i) {
    const lamina_setting_t setting = t.setting();
    reply->api->set(reply, t.is_wrong() ? nullptr : &setting);
  }
  return t.is_wrong() ? static_cast<lamina_status_t>(t.below(5)) : LAMINA_OK;
}

lamina_status_t validate(void*, const lamina_config_t*, lamina_reply_t* reply) {
  Tables& t = *answers;
  if (t.is_wrong()) reply->api->problem(reply, t.text(kNames), t.text(kWords), nullptr);
  return LAMINA_OK;
}

lamina_status_t plan(void*, const lamina_config_t* config, lamina_reply_t* reply) {
  Tables& t = *answers;
  const auto position = [&] {
    auto out = t.made<lamina_position_t>();
    out.block = t.is_wrong() ? t.below(4) : 1;
    if (t.is_wrong()) out.overrides = t.list(2, [&] { return t.setting(); });
    return out;
  };
  std::int64_t layers = 0;
  lamina_value_t value{};
  config->api->get(config, str(LAMINA_CONFIG_NUM_LAYERS), &value);
  for (std::uint32_t i = t.below(2); i > 0; --i) {
    auto segment = t.made<lamina_segment_t>();
    segment.flags = t.flag(1);
    segment.name = t.text(kWords);
    segment.unit = t.span(std::vector{position()});
    segment.times = t.is_wrong() ? t.any_count() : 1 + t.below(2);
    layers += std::int64_t{segment.times} * segment.unit.count;
    reply->api->segment(reply, &segment);
  }
  // The remaining layers, so that most plans are complete.
  if (layers < value.v.i && value.v.i < 64) {
    auto rest = t.made<lamina_segment_t>();
    rest.unit = t.span(std::vector{position()});
    rest.times = static_cast<std::uint32_t>(value.v.i - layers);
    reply->api->segment(reply, &rest);
  }
  const auto& sharing = *static_cast<const lamina_layer_sharing_api_t*>(
      registry::extension(str(LAMINA_LAYER_SHARING_ID)));
  if (t.below(8) == 0) sharing.read_from(reply, t.below(2), t.below(4));
  if (t.below(8) == 0) sharing.params_of(reply, t.below(2), t.below(4));
  return LAMINA_OK;
}

std::uint32_t norm_op() { return static_cast<std::uint32_t>(ops::find("rms_norm")->id); }

lamina_status_t options(void*, const lamina_config_t*, lamina_reply_t* reply) {
  Tables& t = *answers;
  if (t.below(2)) {
    auto embed = t.made<lamina_embed_t>();
    embed.scale = t.number();
    embed.positions = t.below(3);
    embed.max_positions = t.integer();
    embed.dropout = t.number();
    embed.entry = t.is_wrong() ? t.below(4) : 0;
    embed.n_carry = t.is_wrong() ? t.any_count() : 0;
    embed.n_per_layer = t.is_wrong() ? t.any_count() : 0;
    reply->api->embed(reply, &embed);
  }
  auto norm = t.made<lamina_norm_t>();
  norm.op = t.is_wrong() ? t.below(200) : norm_op();
  norm.revision = t.is_wrong() ? t.below(4) : 1;
  norm.flags = t.flag(2);
  if (t.is_wrong()) norm.attrs = t.list(3, [&] { return t.attr(); });
  auto head = t.made<lamina_head_t>();
  head.flags = t.flag(4);
  head.logit_scale = t.number();
  head.soft_cap = t.number();
  head.exit = t.is_wrong() ? t.below(4) : 0;
  head.norm = t.below(2) ? nullptr : &norm;
  reply->api->head(reply, t.is_wrong() ? nullptr : &head);
  if (t.below(4) == 0) {
    auto mtp = t.made<lamina_mtp_t>();
    mtp.block = t.is_wrong() ? t.below(4) : 1;
    mtp.depth = t.is_wrong() ? t.any_count() : t.below(3);
    if (t.is_wrong()) mtp.overrides = t.list(2, [&] { return t.setting(); });
    if (t.below(2)) mtp.weight_key = t.text(kNames);
    static_cast<const lamina_mtp_api_t*>(registry::extension(str(LAMINA_MTP_ID)))
        ->predict(reply, &mtp);
  }
  return LAMINA_OK;
}

// A config with the keys of every model and some of the family's keys.
std::string config_text(Tables& t, const std::vector<lamina_key_t>& keys) {
  // Indexed by kind; LAMINA_KIND_INT is first.
  static constexpr std::string_view kRight[] = {"3",         "0.5",      "true",     "\"silu\"",
                                                "[1, 2, 3]", "[0.5, 1]", "[\"one\"]"};
  static constexpr std::string_view kWrong[] = {
      "-1", "0", "1e30", "[]", "{a = 1}", "nan", "9223372036854775807", "[[1]]", "\"\""};
  std::string out = "[model]\nvocab_size = 11\nhidden_size = 8\nnum_hidden_layers = 3\n";
  for (const lamina_key_t& key : keys) {
    if (t.below(2) || key.type < LAMINA_KIND_INT || key.type > LAMINA_KIND_STRING_LIST) continue;
    out += fmt::format("{} = {}\n", registry::abi::text(key.name, "a key"),
                       t.is_wrong() ? kWrong[t.below(std::size(kWrong))] : kRight[key.type - 1]);
  }
  return out;
}

lamina_family_t family_of(Tables& t, std::vector<lamina_key_t>& more_keys) {
  std::vector<lamina_key_t> keys;
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    const bool required = i < 3;
    if (required ? t.is_wrong() : t.below(2) == 0) continue;
    keys.push_back(t.key(kNames[i], required ? LAMINA_KIND_INT : 1 + t.below(7)));
    if (!required) more_keys.push_back(keys.back());
  }
  std::vector<lamina_block_t> blocks;
  for (std::uint32_t id = 1; id <= (t.is_wrong() ? t.below(3) : 2); ++id) {
    auto& out = blocks.emplace_back(t.made<lamina_block_t>());
    out.id = t.is_wrong() ? t.below(3) : id;
    out.flags = t.is_wrong() ? 1 : 0;
    out.name = t.is_wrong() ? t.text(kWords) : str(id == 1 ? "one" : "two");
    if (!t.is_wrong())
      out.build = [](void*, lamina_build_t*, const lamina_config_t*, const lamina_io_t*) {
        return lamina_status_t{LAMINA_OK};
      };
  }
  auto out = t.made<lamina_family_t>();
  out.flags = t.is_wrong() ? 1 : 0;
  out.name = t.is_wrong() ? t.text(kNames) : str("any");
  out.doc = t.text(kWords);
  if (t.is_wrong()) out.aliases = t.texts(kNames);
  out.hf_model_types = t.texts(kWords);
  out.keys = t.span(std::move(keys));
  out.blocks = t.span(std::move(blocks));
  out.hf_tensors = t.list(5, [&] { return t.row(); });
  if (t.is_wrong()) out.hf_prefixes = t.texts(kPublished);
  if (t.below(2)) out.derive = derive;
  if (t.below(2)) out.validate = validate;
  if (!t.is_wrong()) out.plan = plan;
  if (!t.is_wrong()) out.options = options;
  return out;
}

}  // namespace
}  // namespace lamina::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  fuzz::Bytes bytes(data, size);
  fuzz::Tables tables(bytes);
  fuzz::answers = &tables;
  std::vector<lamina_key_t> keys;
  const lamina_family_t source = fuzz::family_of(tables, keys);
  fuzz::refuse_or_accept([&] {
    const registry::Family family(source, std::make_shared<registry::PluginIdentity>());
    const registry::ModelConfig config =
        family.configure(config::parse_toml(fuzz::config_text(tables, keys), "run.toml",
                                            config::Origin::Kind::run_file),
                         "run.toml");
    fuzz::refuse_or_accept([&] { family.plan(config); });
    fuzz::refuse_or_accept([&] { family.options(config); });
  });
  return 0;
}
