// ABI: the structs and tables of the C contract, with hosts that are older and newer than this one.
#include <cstring>
#include <deque>
#include <memory>

#include "conformance/check.h"
#include "conformance/checks/checks.h"
#include "conformance/process/raw_plugin.h"
#include "conformance/subjects/decoration.h"
#include "conformance/subjects/fingerprint.h"
#include "conformance/subjects/subject.h"
#include "core/error.h"
#include "registry/library.h"

namespace lamina::conformance {
namespace {

constexpr std::size_t kMoreBytes = 64;
constexpr unsigned char kJunk = 0xa5;

// The minimum of a table that a host of this major version provides.
template <typename T>
inline constexpr std::size_t kLeastBytes = 0;
#define LAMINA_LEAST(type, bytes) \
  template <>                     \
  [[maybe_unused]] inline constexpr std::size_t kLeastBytes<type> = bytes;
LAMINA_GROWABLE(LAMINA_LEAST)
#undef LAMINA_LEAST

// The table of the oldest host: memory behind it is not readable.
template <typename T>
const T* shortened(const T& table) {
  T copy = table;
  copy.size = kLeastBytes<T>;
  return static_cast<const T*>(before_a_guard_page(&copy, kLeastBytes<T>));
}

// The table of a newer host: with more entries than this host has.
template <typename T>
const T* lengthened(const T& table) {
  // Kept for the lifetime of the process; the plugin is called on one thread here.
  static auto& kept = *new std::deque<std::unique_ptr<unsigned char[]>>;
  unsigned char* bytes =
      kept.emplace_back(std::make_unique<unsigned char[]>(sizeof(T) + kMoreBytes)).get();
  std::memset(bytes, kJunk, sizeof(T) + kMoreBytes);
  std::memcpy(bytes, &table, sizeof(T));
  auto* out = reinterpret_cast<T*>(bytes);
  out->size = sizeof(T) + kMoreBytes;
  if constexpr (requires { out->abi_minor; }) out->abi_minor = LAMINA_ABI_MINOR + 1;
  return out;
}

// Makes each table once.
template <typename T>
auto once(const T* (*make)(const T&)) {
  return [make, made = static_cast<const T*>(nullptr)](const T& table) mutable {
    if (!made) made = make(table);
    return made;
  };
}

// Tables that the host passes with every call are made again.
const lamina_io_t* longer_io(const lamina_io_t& io) { return lengthened(io); }

// The family's models must be the same with another host.
void compare_hosts(const FamilySubject& subject, Decoration decoration, std::string_view host) {
  const DecoratedFamily decorated(subject.source(), subject.family(), std::move(decoration));
  for (const SmallModel& small : subject.models()) {
    const decoder::Model here = subject.open(small);
    try {
      const decoder::Model there = subject.open(small, decorated.family());
      if (fingerprint(here) != fingerprint(there))
        fail("model '{}' differs with {}", small.name, host);
    } catch (const Refused& refused) {
      fail("model '{}' does not open with {}: {}", small.name, host, refused.what());
    }
  }
}

}  // namespace

void check_structs(const PluginSubject& plugin) {
  registry::SearchPath search;
  search.files.push_back(plugin.file());
  const registry::Catalog catalog = registry::Catalog::scan(std::move(search));
  try {
    registry::load_plugin(catalog.plugins().front());
  } catch (const PluginError& refused) {
    if (const Refused by_rule(refused); by_rule.owner() == "LOD-1") throw by_rule;
    throw;
  }
}

void check_short_host(const PluginSubject& plugin) {
  const RawPlugin raw(plugin.file());
  const lamina_host_t* host = shortened(plain_host());
  raw.init(*host);
  if (!raw.families())
    fail("has no interface \"{}\" with a host of the least size", LAMINA_FAMILIES_ID);
  raw.deinit();
}

void check_long_host(const PluginSubject& plugin) {
  const RawPlugin raw(plugin.file());
  raw.init(*lengthened(plain_host()));
  if (!raw.families())
    fail("has no interface \"{}\" with a newer host, whose table is longer", LAMINA_FAMILIES_ID);
  raw.deinit();
}

void check_short_tables(const FamilySubject& subject) {
  compare_hosts(subject,
                {.config_api = once(&shortened<lamina_config_api_t>),
                 .reply_api = once(&shortened<lamina_reply_api_t>),
                 .build_api = once(&shortened<lamina_build_api_t>)},
                "tables of the least size that a host may have");
}

void check_future_host(const FamilySubject& subject) {
  compare_hosts(subject,
                {.config_api = once(&lengthened<lamina_config_api_t>),
                 .reply_api = once(&lengthened<lamina_reply_api_t>),
                 .build_api = once(&lengthened<lamina_build_api_t>),
                 .io = longer_io},
                "the longer tables of a newer host");
}

}  // namespace lamina::conformance
