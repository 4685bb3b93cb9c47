// The host that loaded this plugin, and its interfaces beyond abi.h.
#pragma once

#include "lamina/sdk/error.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// Valid from init to deinit; set by LAMINA_PLUGIN.
inline const lamina_host_t* loading_host = nullptr;

// Returns the interface of ext/ with that id; null if this host is too old. [any]
template <class Api>
const Api* find_extension(std::string_view id) {
  return static_cast<const Api*>(loading_host->get_interface(loading_host, to_str(id)));
}
// Returns the interface; fails with LAMINA_ERROR_UNSUPPORTED if this host is too old. [any]
template <class Api>
const Api& extension(std::string_view id, At at = At::current()) {
  if (const Api* found = find_extension<Api>(id)) return *found;
  raise(Error(LAMINA_ERROR_UNSUPPORTED,
              "this host has no interface '" + std::string(id) + "'; use a newer host", at));
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
