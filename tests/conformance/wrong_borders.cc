// Faults at the C border that the SDK prevents.
#include <time.h>

#include <stdexcept>

#include "wrong_family.h"

namespace lamina::conformance {
namespace {

// The build behind the faulty one; one family at a time uses it.
struct Behind {
  void* user;
  decltype(lamina_block_t::build) build;
};

template <lamina_status_t (*in_front)(const Behind&, lamina_build_t*, const lamina_config_t*,
                                      const lamina_io_t*)>
void put_in_front(lamina_family_t&, lamina_block_t& block) {
  block.user = new Behind{block.user, block.build};  // lives as long as the process
  block.build = [](void* user, lamina_build_t* build, const lamina_config_t* config,
                   const lamina_io_t* io) {
    return in_front(*static_cast<const Behind*>(user), build, config, io);
  };
}

lamina_status_t refuses_longer_io(const Behind& behind, lamina_build_t* build,
                                  const lamina_config_t* config, const lamina_io_t* io) {
  if (io->size != sizeof(lamina_io_t)) return LAMINA_ERROR_ABI;
  return behind.build(behind.user, build, config, io);
}

lamina_status_t refuses_older_host(const Behind& behind, lamina_build_t* build,
                                   const lamina_config_t* config, const lamina_io_t* io) {
  if (build->api->abi_minor < LAMINA_ABI_MINOR) return LAMINA_ERROR_ABI;
  return behind.build(behind.user, build, config, io);
}

lamina_status_t ignores_failures(const Behind& behind, lamina_build_t* build,
                                 const lamina_config_t* config, const lamina_io_t* io) {
  behind.build(behind.user, build, config, io);
  return LAMINA_OK;
}

lamina_status_t throws_failures(const Behind& behind, lamina_build_t* build,
                                const lamina_config_t* config, const lamina_io_t* io) {
  if (behind.build(behind.user, build, config, io) != LAMINA_OK)
    throw std::runtime_error("a call failed");
  return LAMINA_OK;
}

lamina_status_t says_no_place(const Behind& behind, lamina_build_t* build,
                              const lamina_config_t* config, const lamina_io_t* io) {
  lamina_type_t type{};
  type.size = sizeof type;
  if (const auto status = build->api->type(build, io->carry_in[0], nullptr, &type)) return status;
  return behind.build(behind.user, build, config, io);
}

lamina_status_t takes_long(const Behind& behind, lamina_build_t* build,
                           const lamina_config_t* config, const lamina_io_t* io) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  for (const double end = now() + 0.15; now() < end;) {
  }
  return behind.build(behind.user, build, config, io);
}

}  // namespace

std::vector<WrongFamily> wrong_borders() {
  return {
      {"a build refuses the longer structs of a newer host",
       {"ABI-3"},
       right_family(),
       Level::full,
       put_in_front<refuses_longer_io>},
      {"a build refuses an older host that abi_min_host allows",
       {"ABI-4"},
       right_family(),
       Level::full,
       put_in_front<refuses_older_host>},
      {"a build returns success after a call has failed",
       {"ERR-1"},
       right_family(),
       Level::full,
       put_in_front<ignores_failures>},
      {"a build leaks an exception after a failed call",
       {"ERR-2"},
       right_family(),
       Level::full,
       put_in_front<throws_failures>},
      {"a call without its source position",
       {"ERR-3"},
       right_family(),
       Level::full,
       put_in_front<says_no_place>},
      {"a build takes long",
       {"PRF-1"},
       right_family(),
       Level::full,
       put_in_front<takes_long>,
       {"TRC-4", "TRC-5", "PRF-1"}},
  };
}

}  // namespace lamina::conformance
