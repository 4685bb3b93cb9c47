// The interfaces of plugin_api's ext/, which plugins request by id. Internal to registry.
#pragma once

#include <cstdint>

#include "lamina/ext/auxiliary.h"
#include "lamina/ext/custom_ops.h"
#include "lamina/ext/export.h"
#include "lamina/ext/layer_sharing.h"
#include "lamina/ext/mtp.h"
#include "lamina/ext/time_region.h"

namespace lamina::registry {

// Targets of their tables.
struct ExtensionCalls {
  // reply.cc
  static lamina_status_t predict(lamina_reply_t* reply, const lamina_mtp_t* mtp);
  static lamina_status_t read_from(lamina_reply_t* reply, std::uint32_t position,
                                   std::uint32_t donor);
  static lamina_status_t params_of(lamina_reply_t* reply, std::uint32_t position,
                                   std::uint32_t owner);
  static lamina_status_t export_as(lamina_reply_t* reply, lamina_str_t family);
  // build_calls.cc
  static lamina_status_t add(lamina_build_t* build, const lamina_auxiliary_t* value,
                             const lamina_where_t* at);
  static lamina_status_t update(lamina_build_t* build, const lamina_update_t* update,
                                const lamina_where_t* at);
  static lamina_status_t export_value(lamina_build_t* build, lamina_tensor_t tensor,
                                      lamina_str_t param, const lamina_where_t* at);
  static lamina_status_t begin_region(lamina_build_t* build, const lamina_time_region_t* region,
                                      const lamina_where_t* at);
  static lamina_status_t end_region(lamina_build_t* build, const lamina_time_results_t* results,
                                    const lamina_where_t* at);
};

// Returns the table of an id; null if unknown.
const void* extension(lamina_str_t id);

}  // namespace lamina::registry
