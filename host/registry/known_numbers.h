// The numbers of each list in names.h that this host knows. Internal to registry.
#pragma once

#include <cstdint>

#include "lamina/ext/auxiliary.h"
#include "lamina/names.h"

namespace lamina::registry {

// From min to max; empty if min is above max.
struct KnownNumbers {
  std::uint32_t min = 1, max = 0;
  constexpr bool contain(std::uint32_t number) const { return number >= min && number <= max; }
};

// Returns the numbers of a LAMINA_CAPABILITY_*; none for OP, which ops.def answers, and for unknown
// lists.
constexpr KnownNumbers known_numbers(std::uint32_t list) {
  switch (list) {
    case LAMINA_CAPABILITY_INPUT:
      return {LAMINA_INPUT_POSITIONS, LAMINA_INPUT_IMAGE_BLOCKS};
    case LAMINA_CAPABILITY_STATE:
      return {LAMINA_STATE_KV, LAMINA_STATE_CUSTOM};
    case LAMINA_CAPABILITY_ROLE:
      return {LAMINA_ROLE_WEIGHT, LAMINA_ROLE_CONV};
    case LAMINA_CAPABILITY_INIT:
      return {LAMINA_INIT_ZEROS, LAMINA_INIT_CYCLE};
    case LAMINA_CAPABILITY_TRANSFORM:
      return {LAMINA_TRANSFORM_TRANSPOSE, LAMINA_TRANSFORM_MOVE};
    case LAMINA_CAPABILITY_AUXILIARY:
      return {LAMINA_AUXILIARY_LOSS, LAMINA_AUXILIARY_METRIC};
    case LAMINA_CAPABILITY_REDUCE:
      return {LAMINA_REDUCE_SUM, LAMINA_REDUCE_MAX};
    case LAMINA_CAPABILITY_UPDATE:
      return {LAMINA_UPDATE_ADD, LAMINA_UPDATE_ASSIGN};
    default:
      return {};
  }
}

}  // namespace lamina::registry
