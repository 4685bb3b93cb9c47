// Intercepts the calls between the host and a family: the checks can change the host's tables,
// watch calls and make them fail, and so act as other hosts.
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

// A call by the plugin while it builds a block or a reply.
struct HostCall {
  std::string_view function;  // "emit"
  const lamina_where_t* at;   // null if the function has none, or the plugin passes none
  // The argument, by function.
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
  // Called before each call of a build or reply; cannot be combined with build_api and reply_api. A
  // status other than LAMINA_OK is returned to the plugin, and the host does not receive the call.
  std::function<lamina_status_t(const HostCall&)> on_call = {};
  // Called for each state that the host makes.
  std::function<void(lamina_state_t)> on_state = {};
  // Runs a function of the plugin: "plan", or the name of a block. Must call it once.
  std::function<lamina_status_t(std::string_view function, const std::function<lamina_status_t()>&)>
      around = {};
  // The ABI version in the tables through which calls are watched.
  std::uint32_t abi_minor = LAMINA_ABI_MINOR;
};

class DecoratedFamily {
 public:
  // `source` is the plugin's object for `family`; both must outlive this.
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

  lamina_family_t source_;  // with zeros for fields that an older plugin lacks
  Decoration decoration_;
  std::deque<DecoratedBlock> contexts_;
  std::vector<lamina_block_t> blocks_;
  lamina_build_api_t watched_build_;
  lamina_reply_api_t watched_reply_;
  lamina_family_t table_;
  std::unique_ptr<registry::Family> family_;
};

// Returns a copy of `bytes`; memory behind it is not readable. Lives as long as the process.
const void* before_a_guard_page(const void* bytes, std::size_t count);

}  // namespace lamina::conformance
