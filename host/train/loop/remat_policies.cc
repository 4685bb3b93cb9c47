#include "train/loop/remat_policies.h"

#include <algorithm>

#include "autodiff/tags.h"
#include "core/error.h"
#include "core/suggest.h"
#include "registry/names.h"

namespace lamina::train {
namespace {

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

// A tag that also keeps the values of another tag.
struct Second {
  std::string_view tag, also;
};
constexpr Second kSeconds[] = {
    // The context of attention is its output and its log-sum-exp: either alone saves nothing.
    {"context", "attention_out"},
    // MaxText gives these products of experts two names, and their other input product one.
    {"mlpwi_0", "moe_mlpwi_0"},
    {"mlpwo", "moe_mlpwo"},
};

// Tags and policies of MaxText for values that do not exist here.
struct Absent {
  std::string_view tag, reason;
};
constexpr Absent kAbsent[] = {
    {"quantization", "training is not quantised"},
    {"iteration_input", "there are no pipeline stages"},
    {"indexer_cutoff_threshold", "the mask of an indexer is made from its scores at once"},
};
struct AbsentPolicy {
  std::string_view name, tag, instead;
};
constexpr AbsentPolicy kAbsentPolicies[] = {
    {"minimal_with_quantization", "quantization", "minimal"},
    {"minimal_with_context_and_quantization", "quantization", "minimal_with_context"},
};

const Absent* find_absent(std::string_view tag) {
  const auto* found = std::ranges::find(kAbsent, tag, &Absent::tag);
  return found == std::end(kAbsent) ? nullptr : found;
}

const std::vector<RematPolicy>& policies() {
  static const std::vector<RematPolicy> all = make_policies();
  return all;
}

std::string nearest_or_all(std::string_view name, const std::vector<std::string>& names) {
  std::string nearest = nearest_name(name, names);
  return nearest.empty() ? fmt::format("use one of {}", fmt::join(names, ", "))
                         : fmt::format("did you mean '{}'?", nearest);
}

const std::string kTagsKey = "train.remat_tags.";

[[noreturn]] void refuse_key(const config::KeyPlace& place, const std::string& key,
                             std::string what, std::string note) {
  throw UserError(ExitCode::usage, {place ? place(key) : key, std::move(what), {std::move(note)}});
}

void add_tag(RematPolicy& policy, const std::string& tag, const std::string& residency,
             const config::KeyPlace& place) {
  auto refuse = [&](std::string what, std::string note) {
    refuse_key(place, kTagsKey + tag, std::move(what), std::move(note));
  };
  if (const Absent* absent = find_absent(tag))
    refuse(fmt::format("no value of this build has the tag '{}': {}", tag, absent->reason),
           "remove it");
  const std::span<const std::string_view> known = registry::tag_names();
  if (std::ranges::find(known, tag) == known.end())
    refuse(fmt::format("unknown tag '{}'", tag), nearest_or_all(tag, {known.begin(), known.end()}));
  if (residency == "device") {
    policy.saved.push_back(tag);
  } else if (residency == "offload") {
    policy.offloaded.push_back(tag);
  } else if (residency != "remat") {
    refuse(fmt::format("unknown place '{}'", residency), "use device, offload or remat");
  } else if (tag == registry::kLayerInputTag) {
    refuse("the input of a layer is always kept", "remove it, or say \"device\"");
  }
}

}  // namespace

autodiff::SavePolicy RematPolicy::save_policy() const {
  if (everything) return autodiff::save_everything();
  const auto is_one_of = [](Tags tags) -> autodiff::SavePolicy::Choice {
    for (const Second& second : kSeconds)
      if (std::ranges::find(tags, second.tag) != tags.end()) tags.emplace_back(second.also);
    return [tags = std::move(tags)](std::string_view tag) {
      return !tag.empty() && std::ranges::find(tags, tag) != tags.end();
    };
  };
  return autodiff::SavePolicy(
      is_one_of(with(saved, offloaded)), is_one_of(offloaded),
      std::ranges::find(offloaded, registry::kLayerInputTag) != offloaded.end());
}

std::span<const RematPolicy> remat_policies() { return policies(); }

RematPolicy find_remat_policy(std::string_view name, const RematTags& tags,
                              const config::KeyPlace& place) {
  const std::vector<RematPolicy>& all = policies();
  auto found = std::ranges::find(all, name, &RematPolicy::name);
  if (found == all.end()) {
    for (const AbsentPolicy& absent : kAbsentPolicies)
      if (name == absent.name)
        refuse_key(
            place, "train.remat",
            fmt::format("'{}' keeps values with the tag '{}', which this build does not have: {}",
                        name, absent.tag, find_absent(absent.tag)->reason),
            fmt::format("use '{}'", absent.instead));
    std::vector<std::string> names;
    for (const RematPolicy& policy : all) names.push_back(policy.name);
    refuse_key(place, "train.remat", fmt::format("unknown policy '{}'", name),
               nearest_or_all(name, names));
  }
  RematPolicy policy = *found;
  if (name != "custom") {
    if (!tags.empty())
      refuse_key(place, kTagsKey + tags.begin()->first,
                 fmt::format("tags are for train.remat = \"custom\", which is \"{}\"", name),
                 "say train.remat = \"custom\", or remove [train.remat_tags]");
    return policy;
  }
  if (tags.empty())
    refuse_key(place, "train.remat", "'custom' needs tags in [train.remat_tags]",
               "eg: query_proj = \"device\"; or use a named policy, eg \"minimal\"");
  for (const auto& [tag, residency] : tags) add_tag(policy, tag, residency, place);
  return policy;
}

void check_remat_tags(const RematTags& tags, const Graph& loss, const config::KeyPlace& place) {
  if (tags.empty()) return;
  std::set<std::string> named = autodiff::tags_in(loss);
  for (const Second& second : kSeconds)
    if (named.contains(std::string(second.also))) named.emplace(second.tag);
  for (const auto& [tag, residency] : tags)
    if (tag != registry::kLayerInputTag && !named.contains(tag))
      refuse_key(place, kTagsKey + tag,
                 fmt::format("no layer of this model names a value '{}'", tag),
                 fmt::format("its layers name {}", fmt::join(named, ", ")));
}

}  // namespace lamina::train
