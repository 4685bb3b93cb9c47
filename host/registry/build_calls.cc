// The function table of a lamina_build_t: BlockBuild runs each call, and an exception becomes the
// failure of the build.
#include <deque>
#include <mutex>
#include <new>

#include "registry/block_build.h"
#include "registry/extensions.h"

namespace lamina::registry {

template <typename Body>
lamina_status_t BlockBuild::call(lamina_build_t* build, const lamina_where_t* at, Body&& body) {
  if (build == nullptr) return LAMINA_ERROR_ARGUMENT;
  BlockBuild* const running = static_cast<BuildHandle*>(build)->build;
  if (running == nullptr) return LAMINA_ERROR_TRACE;
  BlockBuild& self = *running;
  if (self.failure_) return LAMINA_ERROR_TRACE;
  BuildFailure failure;
  try {
    failure.scope = self.scope_path();
    failure.at = abi::where(at);
    self.set_origin(failure.at);
    body(self);
    return LAMINA_OK;
  } catch (const std::bad_alloc&) {
    failure.status = LAMINA_ERROR_MEMORY;
  } catch (const abi::ContractError& error) {
    failure.status = error.status();
    failure.text = {fmt::format("block '{}'", self.block_.name), error.what(), {}};
  } catch (const UserError& refused) {
    failure.status = LAMINA_ERROR_SHAPE;
    failure.text = refused.text();
  } catch (const PluginError& refused) {
    failure.status = LAMINA_ERROR_ARGUMENT;
    failure.text = refused.text();
  } catch (...) {
    failure.ours = std::current_exception();
  }
  const lamina_status_t status = failure.status;
  self.fail(std::move(failure));
  return status;
}

// The functions of the table, in order.
struct BuildCalls {
  static lamina_status_t emit(lamina_build_t* build, const lamina_emit_t* emit,
                              const lamina_where_t* at) {
    return BlockBuild::call(build, at, [&](BlockBuild& self) { self.emit(emit); });
  }
  static lamina_status_t param(lamina_build_t* build, const lamina_param_t* param,
                               const lamina_where_t* at, lamina_tensor_t* out) {
    return BlockBuild::call(
        build, at, [&](BlockBuild& self) { store(out, [&] { return self.param(param); }); });
  }
  static lamina_status_t state(lamina_build_t* build, const lamina_state_desc_t* state,
                               const lamina_where_t* at, lamina_state_t* out) {
    return BlockBuild::call(
        build, at, [&](BlockBuild& self) { store(out, [&] { return self.state(state); }); });
  }
  static lamina_status_t input(lamina_build_t* build, std::uint32_t kind, const lamina_where_t* at,
                               lamina_tensor_t* out) {
    return BlockBuild::call(
        build, at, [&](BlockBuild& self) { store(out, [&] { return self.input(kind); }); });
  }
  static lamina_status_t layer_constant(lamina_build_t* build, lamina_str_t name,
                                        lamina_span_t values, const lamina_where_t* at,
                                        lamina_tensor_t* out) {
    return BlockBuild::call(build, at, [&](BlockBuild& self) {
      store(out, [&] { return self.layer_constant(name, values); });
    });
  }
  static lamina_status_t type(lamina_build_t* build, lamina_tensor_t tensor,
                              const lamina_where_t* at, lamina_type_t* out) {
    return BlockBuild::call(build, at, [&](BlockBuild& self) { self.type(tensor, out); });
  }
  static lamina_status_t scope(lamina_build_t* build, lamina_str_t name, std::uint32_t push) {
    return BlockBuild::call(build, nullptr, [&](BlockBuild& self) { self.scope(name, push); });
  }
  static lamina_status_t tag(lamina_build_t* build, lamina_tensor_t tensor, lamina_str_t name,
                             const lamina_where_t* at, lamina_tensor_t* out) {
    return BlockBuild::call(
        build, at, [&](BlockBuild& self) { store(out, [&] { return self.tag(tensor, name); }); });
  }
  static lamina_status_t axes(lamina_build_t* build, lamina_tensor_t tensor, lamina_span_t names,
                              const lamina_where_t* at, lamina_tensor_t* out) {
    return BlockBuild::call(
        build, at, [&](BlockBuild& self) { store(out, [&] { return self.axes(tensor, names); }); });
  }
  static void fail(lamina_build_t* build, lamina_status_t status, lamina_str_t message,
                   const lamina_where_t* at) {
    BlockBuild::call(build, at, [&](BlockBuild& self) {
      throw abi::ContractError(
          status == LAMINA_OK ? LAMINA_ERROR_INTERNAL : status,
          abi::text(message, fmt::format("the message of block '{}'", self.block_.name)));
    });
  }

 private:
  template <typename Make>
  static void store(std::uint64_t* out, Make&& make) {
    if (out == nullptr) abi::refuse("the pointer for the result is null");
    *out = make();
  }
};

namespace {

constexpr lamina_build_api_t kBuildApi = {.size = sizeof(lamina_build_api_t),
                                          .abi_minor = LAMINA_ABI_MINOR,
                                          .emit = BuildCalls::emit,
                                          .param = BuildCalls::param,
                                          .state = BuildCalls::state,
                                          .input = BuildCalls::input,
                                          .layer_constant = BuildCalls::layer_constant,
                                          .type = BuildCalls::type,
                                          .scope = BuildCalls::scope,
                                          .tag = BuildCalls::tag,
                                          .axes = BuildCalls::axes,
                                          .fail = BuildCalls::fail};

BuildHandle& new_handle(BlockBuild* build) {
  static auto& mutex = *new std::mutex;
  static auto& handles = *new std::deque<BuildHandle>;
  const std::lock_guard lock(mutex);
  return handles.emplace_back(BuildHandle{{&kBuildApi}, build});
}

}  // namespace

lamina_status_t ExtensionCalls::add(lamina_build_t* build, const lamina_auxiliary_t* value,
                                    const lamina_where_t* at) {
  return BlockBuild::call(build, at, [&](BlockBuild& self) { self.add_auxiliary(value); });
}
lamina_status_t ExtensionCalls::update(lamina_build_t* build, const lamina_update_t* update,
                                       const lamina_where_t* at) {
  return BlockBuild::call(build, at, [&](BlockBuild& self) { self.update(update); });
}
lamina_status_t ExtensionCalls::export_value(lamina_build_t* build, lamina_tensor_t tensor,
                                             lamina_str_t param, const lamina_where_t* at) {
  return BlockBuild::call(build, at, [&](BlockBuild& self) { self.export_value(tensor, param); });
}

lamina_status_t ExtensionCalls::begin_region(lamina_build_t* build,
                                             const lamina_time_region_t* region,
                                             const lamina_where_t* at) {
  return BlockBuild::call(build, at, [&](BlockBuild& self) { self.begin_region(region); });
}
lamina_status_t ExtensionCalls::end_region(lamina_build_t* build,
                                           const lamina_time_results_t* results,
                                           const lamina_where_t* at) {
  return BlockBuild::call(build, at, [&](BlockBuild& self) { self.end_region(results); });
}

BlockBuild::BlockBuild(const Family& family, const Block& block, const ModelConfig& config,
                       BlockTrace& trace, const BlockRequest& request)
    : handle_(new_handle(this)),
      family_(family),
      block_(block),
      config_(config),
      trace_(trace),
      request_(request),
      view_(config, request.overrides),
      outer_origin_(trace.graph().origin()) {
  ++trace_.generation_;
}

}  // namespace lamina::registry
