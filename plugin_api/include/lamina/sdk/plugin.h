// LAMINA_PLUGIN(id, version, models and ops...): defines the exported symbol and the manifest from
// the same constants.
#pragma once

#include <array>
#include <memory>
#include <tuple>

#include "lamina/sdk/custom_op.h"
#include "lamina/sdk/family_tables.h"
#include "lamina/sdk/host.h"
#include "lamina/sdk/manifest.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

template <class Part>
struct TableOf {
  using type = OpTable;
};
template <class Config>
struct TableOf<Model<Config>> {
  using type = FamilyTables<Config>;
};

template <const auto&... parts>
class Plugin {
 public:
  static lamina_status_t init(const lamina_host_t* host) noexcept {
    const auto work = [&] {
      loading_host = host;
      if (uses_ == 0) tables_ = new Tables;
      loading_ops = &tables_->listed;
      ++uses_;
    };
    return contained(work, [&](lamina_status_t, std::string_view why, const lamina_where_t*) {
      host->log(host, LAMINA_LOG_ERROR, to_str(why), nullptr);
    });
  }
  static void deinit() noexcept {
    if (uses_ == 0 || --uses_ > 0) return;
    delete tables_;
    tables_ = nullptr;
    loading_ops = nullptr;
    loading_host = nullptr;
  }
  static const void* get_interface(lamina_str_t id) noexcept {
    if (!tables_) return nullptr;
    if (to_view(id) == LAMINA_FAMILIES_ID) return &tables_->interface;
    if (to_view(id) == LAMINA_CUSTOM_OPS_ID && !tables_->ops.empty()) return &tables_->custom_ops;
    if (to_view(id) == LAMINA_CUSTOM_OPS_GPU_ID && !tables_->gpu_ops.empty()) return &tables_->gpu;
    return nullptr;
  }

 private:
  struct Tables {
    Tables() {
      const auto add = [&](const auto& one) {
        if constexpr (requires { one.family(); }) {
          families.push_back(one.family());
        } else {
          if (listed[ops.size()]->has_gpu_kernels())
            gpu_ops.push_back(one.gpu_op(static_cast<std::uint32_t>(ops.size())));
          ops.push_back(one.op());
        }
      };
      const auto list = [&](const auto& part) {
        if constexpr (!kIsModel<std::remove_cvref_t<decltype(part)>>) listed.push_back(&part);
      };
      (list(parts), ...);
      std::apply([&](const auto&... one) { (add(one), ...); }, each);
      interface.families = to_span(families);
      custom_ops.ops = to_span(ops);
      if constexpr ((has_gpu_kernels<parts>() || ...)) {
        gpu.images = gpu_images();
        gpu.ops = to_span(gpu_ops);
      }
    }
    std::tuple<typename TableOf<std::remove_cvref_t<decltype(parts)>>::type...> each{parts...};
    std::vector<lamina_family_t> families;
    std::vector<lamina_custom_op_t> ops;
    std::vector<const CustomOp*> listed;  // as ops
    lamina_families_t interface {
      sizeof(lamina_families_t), 0, {}
    };
    lamina_custom_ops_t custom_ops{sizeof(lamina_custom_ops_t), 0, {}};
    std::vector<lamina_gpu_custom_op_t> gpu_ops;
    lamina_custom_ops_gpu_t gpu{sizeof(lamina_custom_ops_gpu_t), 0, {}, {}};
  };
  // A plugin without GPU kernels refers to no images.
  template <const auto& part>
  static constexpr bool has_gpu_kernels() {
    if constexpr (!kIsModel<std::remove_cvref_t<decltype(part)>>) return part.has_gpu_kernels();
    return false;
  }

  // Plain data, so that loading and unloading run no constructors.
  static inline Tables* tables_ = nullptr;
  static inline unsigned uses_ = 0;
};

}  // namespace lamina::sdk
#pragma GCC visibility pop

// Once per plugin, at namespace scope. Models and custom ops must have static storage:
//   LAMINA_PLUGIN("org.example.my_family", "1.2.0", kModel)
#define LAMINA_PLUGIN(id, version, ...)                                                   \
  namespace {                                                                             \
  constexpr auto lamina_about = ::lamina::sdk::about(id, version, __VA_ARGS__);           \
  [[gnu::section(LAMINA_MANIFEST_SECTION), gnu::used]] constexpr auto lamina_manifest =   \
      ::lamina::sdk::manifest<::lamina::sdk::manifest_bytes(lamina_about)>(lamina_about); \
  using LaminaPlugin = ::lamina::sdk::Plugin<__VA_ARGS__>;                                \
  }                                                                                       \
  extern "C" const lamina_plugin_t lamina_plugin_v0 = {                                   \
      LAMINA_PLUGIN_MAGIC,                                                                \
      sizeof(lamina_plugin_t),                                                            \
      LAMINA_ABI_MAJOR,                                                                   \
      LAMINA_ABI_MINOR,                                                                   \
      LAMINA_TARGET_MINOR,                                                                \
      0,                                                                                  \
      ::lamina::sdk::literal(id),                                                         \
      ::lamina::sdk::literal(version),                                                    \
      ::lamina::sdk::literal(LAMINA_SDK),                                                 \
      ::lamina::sdk::literal(LAMINA_TOOLCHAIN),                                           \
      &LaminaPlugin::init,                                                                \
      &LaminaPlugin::deinit,                                                              \
      &LaminaPlugin::get_interface,                                                       \
  };
