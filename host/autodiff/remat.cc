#include "autodiff/remat.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/suggest.h"

namespace lamina::autodiff {
namespace {

constexpr std::array<std::string_view, 26> kTags = {"decoder_layer_input",
                                                    "query_proj",
                                                    "key_proj",
                                                    "value_proj",
                                                    "kv_proj",
                                                    "qkv_proj",
                                                    "query_wa_proj",
                                                    "kv_wa_proj",
                                                    "mla_q",
                                                    "mla_kv",
                                                    "context",
                                                    "attention_out",
                                                    "out_proj",
                                                    "mlpwi",
                                                    "mlpwi_0",
                                                    "mlpwi_1",
                                                    "mlpwo",
                                                    "moe_mlpwi",
                                                    "moe_mlpwi_0",
                                                    "moe_mlpwi_1",
                                                    "moe_mlpwo",
                                                    "indexer_cutoff_threshold",
                                                    "recurrent_out",
                                                    "engram",
                                                    "quantization",
                                                    "iteration_input"};

using Tags = std::vector<std::string>;

Tags with(Tags base, Tags more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

// Names and save sets as in MaxText's remat_policy.
std::vector<RematPolicy> make_policies() {
  const Tags qkv = {"query_proj", "key_proj", "value_proj", "qkv_proj"};
  const Tags minimal = with(qkv, {"kv_proj", "out_proj", "mlpwi_0", "mlpwi_1", "mlpwi", "mlpwo"});
  return {
      {"full", {}, {}, false},
      {"none", {}, {}, true},
      {"minimal", minimal, {}, false},
      {"minimal_with_context", with(minimal, {"context"}), {}, false},
      {"minimal_flash", with(minimal, {"context"}), {}, false},
      {"minimal_with_quantization", with(minimal, {"quantization"}), {}, false},
      {"minimal_with_context_and_quantization",
       with(minimal, {"context", "quantization"}),
       {},
       false},
      {"save_dot_with_context_except_mlp", with(qkv, {"context", "out_proj"}), {}, false},
      {"save_dot_except_mlpwi", with(qkv, {"out_proj", "mlpwo"}), {}, false},
      {"save_dot_except_mlp", with(qkv, {"out_proj"}), {}, false},
      {"save_qkv_proj", qkv, {}, false},
      {"save_out_proj", {"out_proj"}, {}, false},
      {"qkv_proj_offloaded", {}, {"query_proj", "key_proj", "value_proj"}, false},
      {"minimal_offloaded", {}, minimal, false},
      {"custom", {}, {}, false},
  };
}

const std::vector<RematPolicy>& policies() {
  static const std::vector<RematPolicy> all = make_policies();
  return all;
}

}  // namespace

SavePolicy RematPolicy::save_policy() const {
  if (everything) return save_everything();
  // A backend without a second memory keeps offloaded values where they are.
  return [kept = with(saved, offloaded)](std::string_view tag) {
    return !tag.empty() && std::ranges::find(kept, tag) != kept.end();
  };
}

std::span<const RematPolicy> remat_policies() { return policies(); }

const RematPolicy& find_remat_policy(std::string_view name) {
  std::vector<std::string> names;
  for (const RematPolicy& policy : policies()) {
    if (policy.name == name) return policy;
    names.push_back(policy.name);
  }
  std::string nearest = nearest_name(name, names);
  ErrorText text{"train.remat", fmt::format("unknown policy '{}'", name), {}};
  text.notes.push_back(nearest.empty() ? fmt::format("use one of {}", fmt::join(names, ", "))
                                       : fmt::format("did you mean '{}'?", nearest));
  throw UserError(ExitCode::usage, std::move(text));
}

std::span<const std::string_view> remat_tags() { return kTags; }

}  // namespace lamina::autodiff
