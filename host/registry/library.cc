#include "registry/library.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/dll/shared_library.hpp>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "core/log.h"
#include "core/printable.h"
#include "core/system_error.h"
#include "ops/registry.h"
#include "registry/abi_read.h"
#include "registry/custom_ops.h"
#include "registry/extensions.h"
#include "registry/known_numbers.h"
#include "registry/plugin_call.h"
#include "registry/trust.h"

namespace lamina::registry {
namespace {

const void* host_interface(const lamina_host_t*, lamina_str_t id) { return extension(id); }

// Limit for the log lines of all plugins: an endless loop must not fill the disk.
constexpr int kMaxLogLines = 1000;

// Collects the errors that a plugin logs during its start; if null, they are logged.
thread_local std::string* start_errors = nullptr;

void host_log(const lamina_host_t*, std::int32_t severity, lamina_str_t text,
              const lamina_where_t* at) {
  static std::atomic<int> num_lines{0};
  const int before = num_lines.fetch_add(1);
  if (before > kMaxLogLines) {
    num_lines = kMaxLogLines + 1;
    return;
  }
  try {
    if (before == kMaxLogLines)
      return log::warning("plugins wrote {} lines to the log; further lines are dropped",
                          kMaxLogLines);
    std::string line = abi::text(text, "a log line");
    const abi::Where where = abi::where(at);
    if (!where.file.empty()) line += fmt::format(" ({}:{})", where.file, where.line);
    if (start_errors && severity >= LAMINA_LOG_ERROR) {
      if (start_errors->empty()) *start_errors = line;
      return;
    }
    using log::Level;
    log::write(severity <= LAMINA_LOG_DEBUG     ? Level::debug
               : severity == LAMINA_LOG_INFO    ? Level::info
               : severity == LAMINA_LOG_WARNING ? Level::warning
                                                : Level::error,
               line);
  } catch (const abi::ContractError& unreadable) {
    log::warning("a plugin's log line is dropped: {}", unreadable.what());
  } catch (...) {  // out of memory for a line: nothing else is lost
  }
}

std::uint64_t host_capability(const lamina_host_t*, std::uint32_t what, std::uint32_t id,
                              std::uint32_t revision) {
  if (what != LAMINA_CAPABILITY_OP) return revision == 0 && known_numbers(what).contain(id) ? 1 : 0;
  return ops::find(id, revision) != nullptr ? 1 : 0;
}

struct Loaded {
  boost::dll::shared_library library;
  std::vector<Family> families;
};

[[noreturn]] void fail(const PluginFile& file, std::string what,
                       std::vector<std::string> notes = {}) {
  throw PluginError({file.path.string(), std::move(what), std::move(notes)});
}

// Extracts the loader's message from the sentence that Boost puts around it.
std::string loader_text(std::string_view text) {
  constexpr std::string_view kBegin = "dlerror system message: ";
  if (auto begin = text.find(kBegin); begin != text.npos) {
    text.remove_prefix(begin + kBegin.size());
    if (auto end = text.rfind("): "); end != text.npos) text = text.substr(0, end);
  }
  return std::string(text);
}

// A single other user is more likely the owner of a build folder than an attacker: a warning is
// enough.
void warn_of_owner(const PluginFile& file) {
  if (::geteuid() != 0 || SearchEnvironment::of_process().trusts_writable) return;
  if (const std::string why = owned_by_another(file.place); !why.empty())
    log::warning(
        "plugin {} is loaded, but {}; change its owner (chown root), or set LAMINA_TRUST_PLUGINS=1",
        file.manifest.id, why);
}

boost::dll::shared_library open_library(const PluginFile& file) {
  warn_of_owner(file);
  using boost::dll::load_mode::type;
  try {
    return boost::dll::shared_library(
        file.path, type(boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    const std::string why = loader_text(error.what());
    if (why.find("failed to map segment") != why.npos ||
        why.find("annot allocate memory") != why.npos)
      throw DeviceError(ExitCode::memory, {file.path.string(), "out of memory: " + why, {}});
    if (why.find("oo many open files") != why.npos)  // in the process, or in the system
      throw DeviceError(
          ExitCode::memory,
          {file.path.string(), "cannot be opened: too many open files", {kRaiseOpenFiles}});
    std::string action = "build it with lamina_add_plugin() on this system";
    if (why.find("GLIBC") != std::string::npos)
      action = "it was built on a newer system; build it on this one";
    fail(file, "the loader rejects it: " + why, {std::move(action)});
  }
}

lamina_plugin_t read_entry(const PluginFile& file, const lamina_plugin_t& source) {
  if (source.magic != LAMINA_PLUGIN_MAGIC)
    fail(file, fmt::format("its entry begins with {:#x}; expected "
                           "{:#x}",
                           source.magic, LAMINA_PLUGIN_MAGIC));
  const lamina_plugin_t entry = abi::copy(&source, "its entry");
  check_abi(entry.abi_major, entry.abi_built, entry.abi_min_host, file.path.string());
  constexpr std::uint64_t kKnownFlags = LAMINA_PLUGIN_NEVER_UNLOAD;
  if ((entry.flags & ~kKnownFlags) != 0)
    fail(file, fmt::format("its entry has flags {:#x}; this host does not know {:#x}", entry.flags,
                           entry.flags & ~kKnownFlags));
  if (entry.init == nullptr || entry.deinit == nullptr || entry.get_interface == nullptr)
    fail(file, "init, deinit or get_interface is missing in its entry");
  const std::string id = abi::name(entry.id, "its id");
  const std::string version = abi::text(entry.version, "its version");
  if (id != file.manifest.id || version != file.manifest.version)
    fail(file,
         fmt::format("claims to be '{}' {}, but its manifest says '{}' {}", id, version,
                     file.manifest.id, file.manifest.version),
         {"build it again"});
  if (entry.abi_built != file.manifest.abi_built ||
      entry.abi_min_host != file.manifest.abi_min_host)
    fail(file,
         fmt::format("claims to be built for minor {} and to require {}, but its manifest says {} "
                     "and {}",
                     entry.abi_built, entry.abi_min_host, file.manifest.abi_built,
                     file.manifest.abi_min_host),
         {"build it again"});
  return entry;
}

// Returns null if the plugin has no custom ops.
std::shared_ptr<const CustomOps> read_ops(const lamina_plugin_t& entry,
                                          const std::shared_ptr<const PluginIdentity>& plugin) {
  const void* interface = entry.get_interface(abi::str(LAMINA_CUSTOM_OPS_ID));
  if (interface == nullptr) return nullptr;
  const auto table =
      abi::copy(static_cast<const lamina_custom_ops_t*>(interface), LAMINA_CUSTOM_OPS_ID);
  const void* const for_gpus = entry.get_interface(abi::str(LAMINA_CUSTOM_OPS_GPU_ID));
  return std::make_shared<const CustomOps>(
      read_custom_ops(table, plugin, static_cast<const lamina_custom_ops_gpu_t*>(for_gpus)));
}

// Compares the registered families with the manifest.
void require_families(const PluginFile& file, const std::vector<FamilyNames>& registered) {
  const std::vector<FamilyNames>& listed = file.manifest.families;
  if (registered == listed) return;
  const auto names = [](const std::vector<FamilyNames>& of) {
    std::vector<std::string> out;
    for (const FamilyNames& family : of) out.push_back(family.name);
    return out;
  };
  if (names(registered) != names(listed))
    fail(file,
         fmt::format("registers the families {}, but its manifest lists {}",
                     fmt::join(names(registered), ", "), fmt::join(names(listed), ", ")),
         {"build it again"});
  const auto differs = std::ranges::mismatch(registered, listed).in1;
  fail(file,
       fmt::format("registers family '{}' with another doc line, other aliases or other names of "
                   "config.json than its manifest",
                   differs->name),
       {"build it again"});
}

std::vector<Family> read_families(const PluginFile& file, const lamina_plugin_t& entry) {
  const auto plugin = std::make_shared<const PluginIdentity>(PluginIdentity{
      file.manifest.id, file.manifest.version, file.path.string(), abi::text(entry.sdk, "its sdk"),
      abi::text(entry.toolchain, "its toolchain"), entry.abi_built == LAMINA_ABI_MINOR});
  const void* interface = entry.get_interface(abi::str(LAMINA_FAMILIES_ID));
  if (interface == nullptr)
    fail(file, fmt::format("has no interface '{}' and therefore no family", LAMINA_FAMILIES_ID));
  const auto table =
      abi::copy(static_cast<const lamina_families_t*>(interface), LAMINA_FAMILIES_ID);
  std::vector<Family> out;
  const std::shared_ptr<const CustomOps> ops = read_ops(entry, plugin);
  for (const lamina_family_t* family :
       abi::elements<lamina_family_t>(table.families, "its families"))
    out.emplace_back(*family, plugin, ops);
  std::vector<FamilyNames> names;
  for (const Family& family : out) names.push_back(family.names());
  require_families(file, names);
  return out;
}

// Redirects standard output, which belongs to the program's own output, to a file for inspection.
// Does nothing if the system has no such file.
class OutputWatch {
 public:
  OutputWatch() {
    std::fflush(stdout);
    kept_ = ::memfd_create("output of a plugin", MFD_CLOEXEC);
    outside_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (kept_ >= 0 && outside_ >= 0 && ::dup2(kept_, STDOUT_FILENO) >= 0) return;
    finish();
  }
  ~OutputWatch() { finish(); }
  OutputWatch(const OutputWatch&) = delete;
  OutputWatch& operator=(const OutputWatch&) = delete;

  // Returns the beginning of the captured output and restores standard output.
  std::string text() {
    std::fflush(stdout);
    std::array<char, 64> bytes{};
    const ssize_t count = kept_ < 0 ? 0 : ::pread(kept_, bytes.data(), bytes.size(), 0);
    finish();
    return count > 0 ? printable(std::string(bytes.data(), static_cast<std::size_t>(count)), 64)
                     : std::string();
  }

 private:
  void finish() {
    if (kept_ >= 0 && outside_ >= 0) {
      std::fflush(stdout);
      ::dup2(outside_, STDOUT_FILENO);
    }
    for (int* file : {&kept_, &outside_})
      if (*file >= 0) ::close(std::exchange(*file, -1));
  }

  int kept_ = -1, outside_ = -1;
};

void check_counts(const PluginFile& file, const ProcessCounts& before) {
  const ProcessCounts after;
  const auto refuse = [&](std::string what) {
    fail(file, "when it is loaded, it " + what + " (C-10 of docs/plugin_requirements.md)",
         {"a plugin describes models; it must not start threads or keep files open"});
  };
  if (after.threads > before.threads)
    refuse(fmt::format("starts {} thread(s)", after.threads - before.threads));
  if (after.descriptors > before.descriptors)
    refuse(fmt::format("leaves {} file(s) open", after.descriptors - before.descriptors));
}

// Never unmapped: no function of a plugin is called at exit, and its threads or destructors may
// exist even after a failure. REQUIRES: one call at a time, while no other thread opens files or
// starts threads: check_counts() would attribute them to the plugin.
const Loaded* load(const PluginFile& file) {
  static auto& all = *new std::deque<Loaded>;
  const PluginCall call({file.manifest.id, file.manifest.version, file.path.string(), "", ""}, "",
                        "code that runs when it is loaded");
  const ProcessCounts before;
  OutputWatch output;
  Loaded* const out = &all.emplace_back(Loaded{open_library(file), {}});
  try {
    const auto& source = out->library.get<const lamina_plugin_t>(LAMINA_PLUGIN_SYMBOL);
    const lamina_plugin_t entry = read_entry(file, source);
    if (const std::string why = start_plugin(entry, plugin_host()); !why.empty())
      fail(file, "failed to start: " + why);
    if (const std::string text = output.text(); !text.empty())
      fail(file, fmt::format("writes to standard output when it is loaded: {}", text),
           {"only the program may write there; use the host's log (C-4 of "
            "docs/plugin_requirements.md)"});
    out->families = read_families(file, entry);
    if (const std::string change = call.change(); !change.empty())
      fail(file, "when it is loaded, it " + change, {std::string(kLeaveTheProcess)});
    check_counts(file, before);
    return out;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;  // not the plugin's fault
  } catch (const abi::ContractError& error) {
    fail(file, error.what());
  } catch (const std::exception& thrown) {
    fail(file,
         fmt::format("threw an exception ({}); exceptions must not leave a plugin", thrown.what()));
  } catch (...) {
    fail(file, "threw an exception; exceptions must not leave a plugin");
  }
}

}  // namespace

const lamina_host_t& plugin_host() {
  static const lamina_host_t kHost = {.size = sizeof(lamina_host_t),
                                      .abi_minor = LAMINA_ABI_MINOR,
                                      .name = abi::str("lamina"),
                                      .version = abi::str(LAMINA_VERSION),
                                      .get_interface = host_interface,
                                      .log = host_log,
                                      .capability = host_capability};
  return kHost;
}

std::string start_plugin(const lamina_plugin_t& entry, const lamina_host_t& host) {
  std::string errors;
  lamina_status_t status = LAMINA_OK;
  {
    struct Kept {
      explicit Kept(std::string& to) { start_errors = &to; }
      ~Kept() { start_errors = nullptr; }
    } const kept(errors);
    status = entry.init(&host);
  }
  if (status == LAMINA_ERROR_MEMORY) throw std::bad_alloc();
  if (status == LAMINA_OK) return "";
  return fmt::format("init returned {} ({}){}", status, abi::status_name(status),
                     errors.empty() ? "" : ": " + errors);
}

const std::vector<Family>& load_plugin(const PluginFile& file) {
  static auto& mutex = *new std::mutex;
  static auto& loaded = *new std::map<std::filesystem::path, const Loaded*>;
  const std::lock_guard lock(mutex);
  auto at = loaded.find(file.path);
  if (at == loaded.end()) at = loaded.emplace(file.path, load(file)).first;
  return at->second->families;
}

const Family& load_family(const Catalog& catalog, std::string_view name, std::string_view where) {
  const FamilyFile found = catalog.find(name, where);
  for (const Family& family : load_plugin(*found.file))
    if (family.name() == found.family) return family;
  throw InternalError({"load_family", fmt::format("'{}' is not in its plugin", name), {}});
}

const Family& load_family(const Catalog& catalog, const config::ModelSource& model) {
  if (!model.family.empty())
    return load_family(catalog, model.family,
                       model.family_where.empty() ? model.where : model.family_where);
  if (model.model_type.empty() && model.architectures.empty())
    throw UserError(
        ExitCode::usage,
        {model.where,
         "contains no family",
         {fmt::format("write family = \"...\", or \"model_type\" in a config.json; found: {}",
                      fmt::join(catalog.family_names(), ", "))}});
  const FamilyFile found = catalog.find_published(model.model_type, model.architectures,
                                                  model.where, model.text_model_type);
  return load_family(catalog, found.family, model.where);
}

}  // namespace lamina::registry
