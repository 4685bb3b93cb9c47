// Stands between the host and the functions of a family: what the host gives can be given
// differently, calls can be watched and made to fail. So the checks play other hosts.
//
//   DecoratedFamily decorated(subject.source(), subject.family(), {.on_call = ...});
//   decoder::Model model = subject.open(small_model, decorated.family());
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "lamina/abi.h"
#include "lamina/names.h"
#include "registry/family.h"

namespace lamina::conformance {

// A call that the plugin makes while a block is built, or of a reply.
struct HostCall {
  std::string_view function;  // "emit"
  const lamina_where_t* at;   // null where the function has none, or the plugin gives none
  // What the function is given, by the one that it is.
  const lamina_emit_t* emit = nullptr;
  const lamina_param_t* param = nullptr;
  const lamina_state_desc_t* state = nullptr;
  const lamina_str_t* tag = nullptr;
  const lamina_span_t* axes = nullptr;
};

struct Decoration {
  // The tables that the plugin gets instead of the host's.
  std::function<const lamina_config_api_t*(const lamina_config_api_t&)> config_api = {};
  std::function<const lamina_reply_api_t*(const lamina_reply_api_t&)> reply_api = {};
  std::function<const lamina_build_api_t*(const lamina_build_api_t&)> build_api = {};
  std::function<const lamina_io_t*(const lamina_io_t&)> io = {};
  // Before each call of a build or reply, not together with build_api and reply_api. Another status
  // than LAMINA_OK is the answer, and the host does not hear of the call.
  std::function<lamina_status_t(const HostCall&)> on_call = {};
  // A state that the host made.
  std::function<void(lamina_state_t)> on_state = {};
  // Runs a function of the plugin: "plan", or the name of a block. Must call it once.
  std::function<lamina_status_t(std::string_view function, const std::function<lamina_status_t()>&)>
      around = {};
  // What the tables that calls are watched through say.
  std::uint32_t abi_minor = LAMINA_ABI_MINOR;
};

class DecoratedFamily {
 public:
  // `source` is what the plugin gave for `family`; both outlive this.
  DecoratedFamily(const lamina_family& source, const registry::Family& family,
                  Decoration decoration);
  ~DecoratedFamily();
  DecoratedFamily(const DecoratedFamily&) = delete;
  DecoratedFamily& operator=(const DecoratedFamily&) = delete;

  const registry::Family& family() const { return *family_; }

 private:
  friend struct Trampolines;
  struct DecoratedBlock {
    DecoratedFamily* owner;
    const lamina_block_t* block;
  };

  lamina_family_t source_;  // with zeros for what an older plugin lacks
  Decoration decoration_;
  std::deque<DecoratedBlock> contexts_;
  std::vector<lamina_block_t> blocks_;
  lamina_build_api_t watched_build_;
  lamina_reply_api_t watched_reply_;
  lamina_family_t table_;
  std::unique_ptr<registry::Family> family_;
};

// A copy of `bytes` behind which nothing can be read. Lives as long as the process.
const void* before_a_guard_page(const void* bytes, std::size_t count);

}  // namespace lamina::conformance
