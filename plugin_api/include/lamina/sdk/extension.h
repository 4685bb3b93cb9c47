// The host that loaded this plugin, and what it offers beside abi.h.
#pragma once

#include "lamina/sdk/error.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// From init to deinit; set by LAMINA_PLUGIN.
inline const lamina_host_t* loading_host = nullptr;

// The interface of ext/ with that id; null where this host is older than it.
template <class Api>
const Api* find_extension(std::string_view id) {
  return static_cast<const Api*>(loading_host->get_interface(loading_host, to_str(id)));
}
// The same for a family that cannot do without.
template <class Api>
const Api& extension(std::string_view id, At at = At::current()) {
  if (const Api* found = find_extension<Api>(id)) return *found;
  raise(Error(LAMINA_ERROR_UNSUPPORTED,
              "this host has no '" + std::string(id) + "'; a newer one has it", at));
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
