// Asks the host for its capabilities, in plugins that also serve older hosts. [any]
#pragma once

#include "lamina/sdk/emit.h"
#include "lamina/sdk/extension.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// True if the host has an op in the revision of this SDK. Example: host_knows(Op::sinkhorn).
inline bool host_knows(Op op) {
  return loading_host->capability(loading_host, LAMINA_CAPABILITY_OP, row_of(op).id,
                                  row_of(op).revision) != 0;
}

// True if the host knows the contract of that minor.
inline bool host_knows_minor(std::uint32_t minor) {
  return !loading_host || loading_host->abi_minor >= minor;
}

// True if the host knows a number of names.h. Example:
// host_knows(LAMINA_CAPABILITY_STATE, LAMINA_STATE_LATENT).
inline bool host_knows(std::uint32_t list, std::uint32_t number) {
  return loading_host->capability(loading_host, list, number, 0) != 0;
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
