// Rematerialisation policies: names for sets of tags that are kept for the backward pass.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/vjp.h"

namespace lamina::autodiff {

// What happens to the values with a tag.
enum class Residency { recompute, save, offload };

struct RematPolicy {
  std::string name;
  std::vector<std::string> saved;      // tags kept on the device
  std::vector<std::string> offloaded;  // tags kept in the memory of the CPU
  bool everything = false;             // keep all values the backward pass wants

  // Layer inputs are always kept (they are carries of the scan), whatever the policy.
  SavePolicy save_policy() const;
};

// The policies there are, in the order of docs. `custom` starts empty and is filled by tag.
std::span<const RematPolicy> remat_policies();

// Throws UserError (exit 2) naming the nearest policy when there is no such one.
const RematPolicy& find_remat_policy(std::string_view name);

// Every tag a policy may speak of.
std::span<const std::string_view> remat_tags();

}  // namespace lamina::autodiff
