#include "registry/extensions.h"

#include <string_view>

#include "lamina/ext/draft/custom_ops_gpu.h"

namespace lamina::registry {
namespace {

constexpr lamina_mtp_api_t kMtp = {
    .size = sizeof(lamina_mtp_api_t), ._pad0 = 0, .predict = ExtensionCalls::predict};
constexpr lamina_layer_sharing_api_t kLayerSharing = {.size = sizeof(lamina_layer_sharing_api_t),
                                                      ._pad0 = 0,
                                                      .read_from = ExtensionCalls::read_from,
                                                      .params_of = ExtensionCalls::params_of};
constexpr lamina_auxiliary_api_t kAuxiliary = {.size = sizeof(lamina_auxiliary_api_t),
                                               ._pad0 = 0,
                                               .add = ExtensionCalls::add,
                                               .update = ExtensionCalls::update};
constexpr lamina_export_api_t kExport = {.size = sizeof(lamina_export_api_t),
                                         ._pad0 = 0,
                                         .as = ExtensionCalls::export_as,
                                         .value = ExtensionCalls::export_value};
constexpr lamina_time_region_api_t kTimeRegion = {.size = sizeof(lamina_time_region_api_t),
                                                  ._pad0 = 0,
                                                  .begin = ExtensionCalls::begin_region,
                                                  .end = ExtensionCalls::end_region};
constexpr lamina_custom_ops_api_t kCustomOps = {.size = sizeof(lamina_custom_ops_api_t),
                                                ._pad0 = 0,
                                                .devices = LAMINA_DEVICE_CPU | LAMINA_DEVICE_CUDA};

}  // namespace

const void* extension(lamina_str_t id) {
  const std::string_view wanted(id.ptr ? id.ptr : "", id.ptr ? id.len : 0);
  if (wanted == LAMINA_MTP_ID) return &kMtp;
  if (wanted == LAMINA_LAYER_SHARING_ID) return &kLayerSharing;
  if (wanted == LAMINA_AUXILIARY_ID) return &kAuxiliary;
  if (wanted == LAMINA_EXPORT_ID) return &kExport;
  if (wanted == LAMINA_TIME_REGION_ID) return &kTimeRegion;
  if (wanted == LAMINA_CUSTOM_OPS_ID) return &kCustomOps;
  return nullptr;
}

}  // namespace lamina::registry
