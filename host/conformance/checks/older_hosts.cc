// ABI-4: hosts from abi_min_host on, which have less than this one.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "conformance/check.h"
#include "conformance/checks/checks.h"
#include "conformance/process/raw_plugin.h"
#include "conformance/subjects/decoration.h"
#include "conformance/subjects/subject.h"
#include "graph/op.h"
#include "ops/registry.h"
#include "registry/abi_read.h"

namespace lamina::conformance {
namespace {

// Fields and functions are added at the end of structs, and ABI-2 removes all of them; so an older
// host differs only in its minor and in its known numbers.
std::uint64_t older_capability(const lamina_host_t* host, std::uint32_t what, std::uint32_t id,
                               std::uint32_t revision) {
  if (what != LAMINA_CAPABILITY_OP)
    return plain_host().capability(&plain_host(), what, id, revision);
  const Op* op = ops::find(id, revision);
  return op && op->since <= host->abi_minor ? 1 : 0;
}

const lamina_host_t& host_of(std::uint32_t minor) {
  static auto& kept = *new std::map<std::uint32_t, lamina_host_t>;
  const auto [at, is_new] = kept.try_emplace(minor, plain_host());
  if (is_new) {
    at->second.abi_minor = minor;
    at->second.capability = older_capability;
  }
  return at->second;
}

std::vector<std::uint32_t> older_minors(const std::filesystem::path& file) {
  std::uint32_t from = LAMINA_ABI_CANDIDATE;
  if (RawPlugin::is_mapped(file)) from = std::max(from, RawPlugin(file).entry().abi_min_host);
  std::vector<std::uint32_t> out;
  for (; from < LAMINA_ABI_MINOR; ++from) out.push_back(from);
  if (out.empty()) skip("it requires a host of minor {} or later, like this one", from);
  return out;
}

// Makes the plugin see a host as the one that loaded it. Does nothing for a family of this program.
class LoadedBy {
 public:
  LoadedBy(const std::filesystem::path& file, std::uint32_t minor) {
    if (!RawPlugin::is_mapped(file)) return;
    raw_ = std::make_unique<RawPlugin>(file);
    raw_->init(host_of(minor));
  }
  ~LoadedBy() {
    if (!raw_) return;
    raw_->deinit();
    raw_->entry().init(&plain_host());  // for later use by the process
  }
  LoadedBy(const LoadedBy&) = delete;
  LoadedBy& operator=(const LoadedBy&) = delete;

 private:
  std::unique_ptr<RawPlugin> raw_;
};

// A feature used by the plugin that the host does not have yet; empty: none.
std::string younger_part(const lamina_emit_t& emit, std::uint32_t minor) {
  const Op* op = ops::find(emit.op, emit.revision);
  if (!op || op->id >= LAMINA_DRAFT_OPS) return {};
  if (op->since > minor)
    return fmt::format("op '{}', which came with plugin ABI {}.{}", op->name, LAMINA_ABI_MAJOR,
                       op->since);
  for (const auto& attr : registry::abi::plain<lamina_attr_t>(emit.attrs, "attributes"))
    if (attr.since > minor)
      return fmt::format("attribute {} of op '{}', which needs plugin ABI {}.{}", attr.key,
                         op->name, LAMINA_ABI_MAJOR, attr.since);
  return {};
}

// The same for a flag of a parameter.
std::string younger_flag(const lamina_param_t& param, std::uint32_t minor) {
  constexpr struct {
    std::uint32_t flag, since;
    std::string_view name;
  } kFlags[] = {{LAMINA_PARAM_UNSHARED, 8, "LAMINA_PARAM_UNSHARED"},
                {LAMINA_PARAM_NO_QUANTIZE, 9, "LAMINA_PARAM_NO_QUANTIZE"}};
  for (const auto& [flag, since, name] : kFlags)
    if ((param.flags & flag) && since > minor)
      return fmt::format("{}, which came with plugin ABI {}.{}", name, LAMINA_ABI_MAJOR, since);
  return {};
}

void open_with(const FamilySubject& subject, const SmallModel& small, std::uint32_t minor) {
  std::string younger;
  lamina_status_t answer = LAMINA_OK;
  const DecoratedFamily decorated(
      subject.source(), subject.family(),
      {.on_call =
           [&](const HostCall& call) {
             if (!call.emit && !call.param) return LAMINA_OK;
             if (younger.empty())
               younger =
                   call.emit ? younger_part(*call.emit, minor) : younger_flag(*call.param, minor);
             return younger.empty() ? LAMINA_OK : LAMINA_ERROR_UNSUPPORTED;
           },
       .around =
           [&](std::string_view, const std::function<lamina_status_t()>& run) {
             const lamina_status_t status = run();
             if (answer == LAMINA_OK) answer = status;
             return status;
           },
       .abi_minor = minor});
  std::string why;
  try {
    subject.open(small, decorated.family());
    return;
  } catch (const Refused& refused) {
    why = refused.what();
  }
  const std::string what = fmt::format("model '{}' with a host of plugin ABI {}.{}", small.name,
                                       LAMINA_ABI_MAJOR, minor);
  if (!younger.empty())
    fail("{}: uses {}; call capability() first, or set TARGET_MINOR", what, younger);
  // It reported the missing feature.
  if (answer == LAMINA_ERROR_UNSUPPORTED) return;
  fail("{}: {}", what, why);
}

}  // namespace

void check_older_hosts(const PluginSubject& plugin) {
  const RawPlugin raw(plugin.file());
  for (const std::uint32_t minor : older_minors(plugin.file())) {
    if (const lamina_status_t status = raw.entry().init(&host_of(minor)); status != LAMINA_OK)
      fail("init returns {} with a host of plugin ABI {}.{}, though abi_min_host is {}", status,
           LAMINA_ABI_MAJOR, minor, raw.entry().abi_min_host);
    if (!raw.families())
      fail("has no interface \"{}\" with a host of plugin ABI {}.{}", LAMINA_FAMILIES_ID,
           LAMINA_ABI_MAJOR, minor);
    raw.deinit();
  }
}

void check_models_of_older_hosts(const FamilySubject& subject) {
  const std::vector<std::uint32_t> minors = older_minors(subject.plugin().file());
  for (const SmallModel& small : subject.models()) subject.open(small);  // throws Refused
  for (const std::uint32_t minor : minors) {
    for (const auto& key : registry::abi::copies<lamina_key_t>(subject.source().keys, "keys"))
      if (key.since > minor)
        fail("key '{}' needs plugin ABI {}.{}, and abi_min_host is {}",
             std::string_view(key.name.ptr, key.name.len), LAMINA_ABI_MAJOR, key.since, minor);
    const LoadedBy loaded(subject.plugin().file(), minor);
    for (const SmallModel& small : subject.models()) open_with(subject, small, minor);
  }
}

}  // namespace lamina::conformance
