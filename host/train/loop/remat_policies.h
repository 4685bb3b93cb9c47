// Rematerialisation policies: names for sets of tags that are kept for the backward pass.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/vjp.h"
#include "config/sections.h"
#include "graph/graph.h"

namespace lamina::train {

struct RematPolicy {
  std::string name;
  std::vector<std::string> saved;      // tags kept on the device
  std::vector<std::string> offloaded;  // tags kept in host memory, if the device has another memory
  bool everything = false;             // keep all values that the backward pass reads

  autodiff::SavePolicy save_policy() const;
};

// All policies, in the order of the docs; `custom` is empty.
std::span<const RematPolicy> remat_policies();

// The choice of a run file for each tag: "device", "offload" or "remat".
using RematTags = std::map<std::string, std::string>;

// Returns the policy of that name; `custom` needs `tags` and keeps their values. Throws UserError
// (exit 2) at the place of the key: for an unknown policy or tag, naming the nearest; for tags
// without custom, or custom without tags; for an impossible choice of a tag.
RematPolicy find_remat_policy(std::string_view name, const RematTags& tags = {},
                              const config::KeyPlace& place = {});

// Throws UserError (exit 2) likewise for a tag that no value of the graph has.
void check_remat_tags(const RematTags& tags, const Graph& loss, const config::KeyPlace& place = {});

}  // namespace lamina::train
