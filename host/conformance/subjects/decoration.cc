#include "conformance/subjects/decoration.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "conformance/check.h"

namespace lamina::conformance {
namespace {

// The decoration of the plugin function that this thread is in, and the host's own tables.
struct Running {
  const Decoration* decoration = nullptr;
  const lamina_build_api_t* build = nullptr;
  const lamina_reply_api_t* reply = nullptr;
};
thread_local Running running;

lamina_status_t announce(const HostCall& call) { return running.decoration->on_call(call); }

// A table of functions that call on_call() first.
struct WatchedBuild {
  static lamina_status_t emit(lamina_build_t* build, const lamina_emit_t* emit,
                              const lamina_where_t* at) {
    if (const auto status = announce({.function = "emit", .at = at, .emit = emit})) return status;
    return running.build->emit(build, emit, at);
  }
  static lamina_status_t param(lamina_build_t* build, const lamina_param_t* param,
                               const lamina_where_t* at, lamina_tensor_t* out) {
    if (const auto status = announce({.function = "param", .at = at, .param = param}))
      return status;
    return running.build->param(build, param, at, out);
  }
  static lamina_status_t state(lamina_build_t* build, const lamina_state_desc_t* state,
                               const lamina_where_t* at, lamina_state_t* out) {
    if (const auto status = announce({.function = "state", .at = at, .state = state}))
      return status;
    const lamina_status_t status = running.build->state(build, state, at, out);
    if (status == LAMINA_OK && running.decoration->on_state) running.decoration->on_state(*out);
    return status;
  }
  static lamina_status_t input(lamina_build_t* build, std::uint32_t kind, const lamina_where_t* at,
                               lamina_tensor_t* out) {
    if (const auto status = announce({"input", at})) return status;
    return running.build->input(build, kind, at, out);
  }
  static lamina_status_t layer_constant(lamina_build_t* build, lamina_str_t name,
                                        lamina_span_t values, const lamina_where_t* at,
                                        lamina_tensor_t* out) {
    if (const auto status = announce({"layer_constant", at})) return status;
    return running.build->layer_constant(build, name, values, at, out);
  }
  static lamina_status_t type(lamina_build_t* build, lamina_tensor_t tensor,
                              const lamina_where_t* at, lamina_type_t* out) {
    if (const auto status = announce({"type", at})) return status;
    return running.build->type(build, tensor, at, out);
  }
  static lamina_status_t scope(lamina_build_t* build, lamina_str_t name, std::uint32_t push) {
    if (const auto status = announce({"scope", nullptr})) return status;
    return running.build->scope(build, name, push);
  }
  static lamina_status_t tag(lamina_build_t* build, lamina_tensor_t tensor, lamina_str_t name,
                             const lamina_where_t* at, lamina_tensor_t* out) {
    if (const auto status = announce({.function = "tag", .at = at, .tag = &name})) return status;
    return running.build->tag(build, tensor, name, at, out);
  }
  static lamina_status_t axes(lamina_build_t* build, lamina_tensor_t tensor, lamina_span_t names,
                              const lamina_where_t* at, lamina_tensor_t* out) {
    if (const auto status = announce({.function = "axes", .at = at, .axes = &names})) return status;
    return running.build->axes(build, tensor, names, at, out);
  }
  static void fail(lamina_build_t* build, lamina_status_t status, lamina_str_t message,
                   const lamina_where_t* at) {
    running.build->fail(build, status, message, at);
  }
};

constexpr lamina_build_api_t kWatchedBuild = {.size = sizeof(lamina_build_api_t),
                                              .abi_minor = LAMINA_ABI_MINOR,
                                              .emit = WatchedBuild::emit,
                                              .param = WatchedBuild::param,
                                              .state = WatchedBuild::state,
                                              .input = WatchedBuild::input,
                                              .layer_constant = WatchedBuild::layer_constant,
                                              .type = WatchedBuild::type,
                                              .scope = WatchedBuild::scope,
                                              .tag = WatchedBuild::tag,
                                              .axes = WatchedBuild::axes,
                                              .fail = WatchedBuild::fail};

struct WatchedReply {
  static lamina_status_t set(lamina_reply_t* reply, const lamina_setting_t* setting) {
    if (const auto status = announce({"set", nullptr})) return status;
    return running.reply->set(reply, setting);
  }
  static lamina_status_t problem(lamina_reply_t* reply, lamina_str_t key, lamina_str_t message,
                                 const lamina_where_t* at) {
    return running.reply->problem(reply, key, message, at);
  }
  static lamina_status_t segment(lamina_reply_t* reply, const lamina_segment_t* segment) {
    if (const auto status = announce({"segment", nullptr})) return status;
    return running.reply->segment(reply, segment);
  }
  static lamina_status_t embed(lamina_reply_t* reply, const lamina_embed_t* embed) {
    if (const auto status = announce({"embed", nullptr})) return status;
    return running.reply->embed(reply, embed);
  }
  static lamina_status_t head(lamina_reply_t* reply, const lamina_head_t* head) {
    if (const auto status = announce({"head", nullptr})) return status;
    return running.reply->head(reply, head);
  }
  static void fail(lamina_reply_t* reply, lamina_status_t status, lamina_str_t message,
                   const lamina_where_t* at) {
    running.reply->fail(reply, status, message, at);
  }
};

constexpr lamina_reply_api_t kWatchedReply = {.size = sizeof(lamina_reply_api_t),
                                              .abi_minor = LAMINA_ABI_MINOR,
                                              .set = WatchedReply::set,
                                              .problem = WatchedReply::problem,
                                              .segment = WatchedReply::segment,
                                              .embed = WatchedReply::embed,
                                              .head = WatchedReply::head,
                                              .fail = WatchedReply::fail};

// Replaces the table of `object` during a call.
template <typename Object, typename Api>
class Replaced {
 public:
  Replaced(const Object* object, const Api* table)
      : object_(const_cast<Object*>(object)), before_(object->api) {
    if (table) object_->api = table;
  }
  ~Replaced() { object_->api = before_; }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  Object* object_;
  const Api* before_;
};

class Entered {
 public:
  explicit Entered(Running now) : before_(running) { running = now; }
  ~Entered() { running = before_; }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  Running before_;
};

template <typename T>
T grown(const T& from) {
  T out{};
  std::memcpy(static_cast<void*>(&out), &from, std::min<std::size_t>(from.size, sizeof(T)));
  return out;
}

}  // namespace

// The functions through which the plugin's functions are called.
struct Trampolines {
  using Function = lamina_status_t (*)(void*, const lamina_config_t*, lamina_reply_t*);

  static lamina_status_t around(const Decoration& d, std::string_view name,
                                const std::function<lamina_status_t()>& call) {
    return d.around ? d.around(name, call) : call();
  }

  template <Function lamina_family_t::*function>
  static lamina_status_t config(void* user, const lamina_config_t* config, lamina_reply_t* reply) {
    const auto* self = static_cast<const DecoratedFamily*>(user);
    const Decoration& d = self->decoration_;
    const Entered entered({&d, nullptr, reply->api});
    const Replaced keys(config, d.config_api ? d.config_api(*config->api) : nullptr);
    const Replaced answer(reply, d.reply_api ? d.reply_api(*reply->api)
                                 : d.on_call ? &self->watched_reply_
                                             : nullptr);
    return around(d, name<function>(),
                  [&] { return (self->source_.*function)(self->source_.user, config, reply); });
  }

  static lamina_status_t build(void* user, lamina_build_t* build, const lamina_config_t* config,
                               const lamina_io_t* io) {
    const auto* block = static_cast<const DecoratedFamily::DecoratedBlock*>(user);
    const Decoration& d = block->owner->decoration_;
    const Entered entered({&d, build->api, nullptr});
    const Replaced keys(config, d.config_api ? d.config_api(*config->api) : nullptr);
    const Replaced calls(build, d.build_api ? d.build_api(*build->api)
                                : d.on_call ? &block->owner->watched_build_
                                            : nullptr);
    const lamina_io_t* given = d.io ? d.io(*io) : io;
    const std::string_view name(block->block->name.ptr, block->block->name.len);
    return around(d, name,
                  [&] { return block->block->build(block->block->user, build, config, given); });
  }

 private:
  template <Function lamina_family_t::*function>
  static constexpr std::string_view name() {
    if (function == &lamina_family_t::derive) return "derive";
    if (function == &lamina_family_t::validate) return "validate";
    return function == &lamina_family_t::plan ? "plan" : "options";
  }
};

DecoratedFamily::DecoratedFamily(const lamina_family& source, const registry::Family& family,
                                 Decoration decoration)
    : source_(grown(source)),
      decoration_(std::move(decoration)),
      watched_build_(kWatchedBuild),
      watched_reply_(kWatchedReply),
      table_(source_) {
  watched_build_.abi_minor = watched_reply_.abi_minor = decoration_.abi_minor;
  for (const registry::Block& block : family.blocks()) {
    contexts_.push_back({this, block.source});
    lamina_block_t& out = blocks_.emplace_back(grown(*block.source));
    out.size = sizeof out;
    out.user = &contexts_.back();
    out.build = &Trampolines::build;
  }
  table_.size = sizeof table_;
  table_.user = this;
  table_.blocks = {blocks_.data(), static_cast<std::uint32_t>(blocks_.size()),
                   sizeof(lamina_block_t)};
  if (source_.derive) table_.derive = &Trampolines::config<&lamina_family_t::derive>;
  if (source_.validate) table_.validate = &Trampolines::config<&lamina_family_t::validate>;
  table_.plan = &Trampolines::config<&lamina_family_t::plan>;
  table_.options = &Trampolines::config<&lamina_family_t::options>;
  // Lowerings of custom ops call through the same build.
  family_ = std::make_unique<registry::Family>(
      table_, std::make_shared<const registry::PluginIdentity>(family.plugin()),
      family.shared_custom_ops());
}

DecoratedFamily::~DecoratedFamily() = default;

const void* before_a_guard_page(const void* bytes, std::size_t count) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t used = (count + page - 1) / page * page;
  void* at = mmap(nullptr, used + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || mprotect(static_cast<char*>(at) + used, page, PROT_NONE) != 0)
    fail("the system cannot create a guard page");
  char* out = static_cast<char*>(at) + used - count;
  std::memcpy(out, bytes, count);
  return out;
}

}  // namespace lamina::conformance
