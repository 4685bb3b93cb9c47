// A family with one block, which is a function of the test.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "config/raw.h"
#include "decoder/model.h"
#include "lamina/sdk.h"
#include "registry/custom_ops.h"
#include "registry/extensions.h"

namespace lamina::decoder {

namespace sdk = lamina::sdk;

struct OneBlockConfig {
  std::int64_t vocab_size, hidden_size, num_hidden_layers;
};

using Build = sdk::Tensor (*)(sdk::Scope s, const OneBlockConfig&, sdk::Tensor x, const sdk::Step&);
// A Build of its body, which may use s, x and step.
#define LAMINA_BLOCK(...)                                                           \
  []([[maybe_unused]] lamina::sdk::Scope s, const lamina::decoder::OneBlockConfig&, \
     [[maybe_unused]] lamina::sdk::Tensor x,                                        \
     [[maybe_unused]] const lamina::sdk::Step& step) -> lamina::sdk::Tensor __VA_ARGS__

inline Build build;  // the block of the next family

inline sdk::Norm final_norm;  // of the next family

inline constexpr sdk::Model<OneBlockConfig> kFamily = {
    .family = {.name = "varying"},
    .keys =
        [](sdk::Schema<OneBlockConfig>& key) {
          key("vocab_size", &OneBlockConfig::vocab_size, {.fallback = 5, .doc = "A number."});
          key("hidden_size", &OneBlockConfig::hidden_size, {.fallback = 4, .doc = "A number."});
          key("num_hidden_layers", &OneBlockConfig::num_hidden_layers,
              {.fallback = 2, .doc = "A number."});
        },
    .blocks =
        [] {
          return std::vector<sdk::Block<OneBlockConfig>>{{1, "varies", build}};
        },
    .plan = [](const OneBlockConfig&) { return sdk::prefix("a", sdk::unit(1), 2); },
    .head = [](const OneBlockConfig&) { return sdk::Head{.norm = final_norm, .tied = true}; },
};

// The host that init() gets.
inline const lamina_host_t kHost = {
    .size = sizeof(lamina_host_t),
    .abi_minor = LAMINA_ABI_MINOR,
    .name = {},
    .version = {},
    .get_interface = [](const lamina_host_t*, lamina_str_t id) { return registry::extension(id); },
    .log = nullptr,
    .capability = nullptr};

// `op`: an op of the plugin, or null.
inline std::shared_ptr<const registry::Family> family_with(Build block,
                                                           const sdk::CustomOp* op = nullptr) {
  build = block;
  sdk::loading_host = &kHost;
  static std::vector<const sdk::CustomOp*> listed;
  sdk::loading_ops = &(listed = {});
  static auto& all = *new std::deque<sdk::FamilyTables<OneBlockConfig>>;  // like a library
  const auto& tables = all.emplace_back(kFamily);
  const auto plugin = std::make_shared<registry::PluginIdentity>();
  std::shared_ptr<const registry::CustomOps> ops;
  if (op) {
    listed = {op};
    static auto& kept = *new std::deque<sdk::OpTable>;  // what kernels point to
    const lamina_custom_op_t source = kept.emplace_back(*op).op();
    ops = std::make_shared<const registry::CustomOps>(registry::read_custom_ops(
        {sizeof(lamina_custom_ops_t), 0, {&source, 1, sizeof source}}, plugin));
  }
  return std::make_shared<registry::Family>(tables.family(), plugin, ops);
}

// A model of family_with(); `keys` are keys of [model].
inline Model open_family_with(Build block, const sdk::CustomOp* op = nullptr,
                              const config::Raw& keys = {}) {
  const auto family = family_with(block, op);
  return Model(family, family->configure(keys, "test"));
}

}  // namespace lamina::decoder
