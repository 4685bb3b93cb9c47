#include "backends/cuda/emulation/nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/emulation/driver_state.h"
#include "backends/cuda/emulation/memory_range.h"
#include "backends/emulated/memory.h"

namespace lamina::cuda::nccl {

struct NcclCommunicator {
  struct Clique* clique;
  int rank, gpu;
  StreamHandle stream = nullptr;  // of its first call
  std::size_t num_calls = 0;
  bool has_come = false;  // its group has ended
  bool aborted = false;
  std::shared_ptr<emulated::Mark> never = nullptr;  // that its GPU waits for if it hangs
  NcclResult error = NcclResult::success;
  std::string text;  // of the error
  // Calls whose work is not on the stream yet.
  std::vector<std::function<void()>> calls = {};
  int looks = 0;  // at async_error(), before they are
};

enum class CollectiveKind { all_reduce, all_gather, broadcast };

// A collective, once its first rank has called it.
struct Collective {
  CollectiveKind kind;
  std::size_t bytes;  // that each rank sends
  NcclType type;
  int root;
  int first_rank;  // that called it
  struct Part {
    bool called = false;
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::shared_ptr<emulated::Mark> arrived, done;
  };
  std::vector<Part> parts;     // by rank
  std::size_t first_term = 0;  // the rank whose numbers a sum begins with
};

// The communicators of one unique id.
struct Clique {
  std::mutex mutex;
  std::vector<std::unique_ptr<NcclCommunicator>> ranks;  // null: has not come
  std::vector<std::shared_ptr<Collective>> collectives;
  bool sums_in_switch = false;  // by NVLS, in an order that differs between calls
  emulated::Line line;          // for the work of collectives, which belongs to no GPU
};

}  // namespace lamina::cuda::nccl

namespace lamina::cuda::emulation {

using namespace nccl;

namespace {

constexpr const char* kMagic = "lamina fake NCCL ";

constexpr int kMostRanks = emulated::kMostDevices;

struct Fault {
  NcclFault kind;
  int rank, left;
};

struct Nccl {
  std::mutex mutex;
  std::vector<std::unique_ptr<Clique>> cliques;  // stay, because work may use them
  std::optional<Fault> fault;
  int first_refused = kMostRanks;  // rank

  static Nccl& instance() {
    static Nccl& nccl = *new Nccl;
    return nccl;
  }
};

// The groups of this thread that are open, and what happens at the end of the outermost one. After
// an error only communicators are ended.
struct Group {
  int depth = 0;
  NcclResult error = NcclResult::success;
  std::vector<std::function<void()>> calls, ends;
};
thread_local Group group;

// A thread of NCCL puts the work of a group on its streams. Here the second look at the state of a
// communicator does.
constexpr int kLooks = 2;

Clique* clique_of(const UniqueId& id) {
  Nccl& nccl = Nccl::instance();
  const std::string_view text(id.bytes, strnlen(id.bytes, sizeof(id.bytes)));
  if (!text.starts_with(kMagic)) return nullptr;
  const auto number =
      static_cast<std::size_t>(std::stoul(std::string(text.substr(std::strlen(kMagic)))));
  const std::lock_guard lock(nccl.mutex);
  return number < nccl.cliques.size() ? nccl.cliques[number].get() : nullptr;
}

// True if NCCL_ALGO, which is a list of algorithms or, after ^, of excluded ones, allows NVLS.
bool allows_nvls() {
  const char* const text = std::getenv("NCCL_ALGO");
  if (!text) return true;
  const std::string_view list(text);
  const bool excludes = list.starts_with('^');
  return (list.find("NVLS") != list.npos) != excludes;
}

// Sets the variables of the file that NCCL_CONF_FILE names, "NAME=value" in each line, unless the
// environment has them. NCCL reads its files in its first call only.
void read_configuration() {
  const char* const path = std::getenv("NCCL_CONF_FILE");
  if (!path) return;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (const std::size_t end = line.find('='); !line.starts_with('#') && end != line.npos)
      setenv(line.substr(0, end).c_str(), line.c_str() + end + 1, 0);
}

// Ends the collectives of all ranks with an error. REQUIRES: the mutex of the clique is locked.
NcclResult break_all(Clique& clique, NcclResult error, const std::string& text) {
  for (const auto& rank : clique.ranks) {
    if (!rank || rank->error != NcclResult::success) continue;
    rank->error = error;
    rank->text = text;
  }
  return error;
}

// Returns the fault of this call, if one comes now.
std::optional<NcclFault> fault_of(int rank) {
  Nccl& nccl = Nccl::instance();
  const std::lock_guard lock(nccl.mutex);
  if (!nccl.fault || nccl.fault->rank != rank || nccl.fault->left-- > 0) return std::nullopt;
  const NcclFault kind = nccl.fault->kind;
  nccl.fault.reset();
  return kind;
}

const char* name(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce   ? "all_reduce"
         : kind == CollectiveKind::all_gather ? "all_gather"
                                              : "broadcast";
}
std::string describe(CollectiveKind kind, std::size_t bytes, NcclType type, int root) {
  return fmt::format("{} of {} bytes of type {}{}", name(kind), bytes, static_cast<int>(type),
                     kind == CollectiveKind::broadcast ? fmt::format(" from rank {}", root) : "");
}

// Moves the data of a collective that all ranks have reached.
void compute(const Collective& all) {
  const std::size_t num_ranks = all.parts.size();
  if (all.kind == CollectiveKind::broadcast) {
    for (const Collective::Part& part : all.parts)
      std::memmove(part.to, all.parts[static_cast<std::size_t>(all.root)].from, all.bytes);
    return;
  }
  std::vector<std::byte> result(all.kind == CollectiveKind::all_gather ? all.bytes * num_ranks
                                                                       : all.bytes);
  if (all.kind == CollectiveKind::all_gather) {
    for (std::size_t i = 0; i < num_ranks; ++i)
      std::memcpy(result.data() + i * all.bytes, all.parts[i].from, all.bytes);
  } else {
    for (std::size_t at = 0; at < all.bytes; at += sizeof(float)) {
      float sum = 0;
      for (std::size_t i = 0; i < num_ranks; ++i) {
        float value = 0;
        std::memcpy(&value, all.parts[(all.first_term + i) % num_ranks].from + at, sizeof(value));
        sum = i == 0 ? value : sum + value;
      }
      std::memcpy(result.data() + at, &sum, sizeof(sum));
    }
  }
  for (const Collective::Part& part : all.parts) std::memcpy(part.to, result.data(), result.size());
}

// The work of a collective. With a lost GPU or an aborted rank it does not end, except by abort().
void run_collective(Clique& clique, const Collective& all) {
  const std::lock_guard lock(clique.mutex);
  for (const auto& rank : clique.ranks) {
    if (rank->error != NcclResult::success || rank->aborted) return;
    if (DriverState::instance().has_failed(rank->gpu)) {
      break_all(clique, NcclResult::remote_error, fmt::format("GPU {} is lost", rank->gpu));
      return;
    }
  }
  compute(all);
  for (const Collective::Part& part : all.parts) emulated::Worker::instance().reach(*part.done);
}

// True if the bytes are in one allocation of that GPU.
bool is_in_memory(const void* at, std::size_t bytes, int gpu) {
  const MemoryRange place = range(at, static_cast<std::int64_t>(bytes));
  return emulated::device_of(place.begin) == gpu && place.is_allocated();
}

struct Request {
  CollectiveKind kind;
  const void* from;
  void* to;
  std::size_t count;
  NcclType type;
  int root;
};

NcclResult refuse(NcclCommunicator& communicator, NcclResult error, std::string text) {
  communicator.text = std::move(text);
  return error;
}

NcclResult check_request(NcclCommunicator& mine, const Request& request, std::size_t bytes,
                         StreamHandle stream) {
  const std::size_t num_ranks = mine.clique->ranks.size();
  if (mine.aborted) return refuse(mine, NcclResult::invalid_usage, "the communicator was aborted");
  if (!is_stream(stream) || stream->line.device != mine.gpu)
    return refuse(mine, NcclResult::invalid_usage, "a stream of another GPU");
  if (mine.stream && mine.stream != stream)
    return refuse(mine, NcclResult::invalid_usage, "a communicator on two streams");
  if (request.root < 0 || request.root >= static_cast<int>(num_ranks))
    return refuse(mine, NcclResult::invalid_argument, "a root that is no rank");
  const std::size_t bytes_to =
      request.kind == CollectiveKind::all_gather ? bytes * num_ranks : bytes;
  if (!is_in_memory(request.from, bytes, mine.gpu) || !is_in_memory(request.to, bytes_to, mine.gpu))
    return refuse(mine, NcclResult::invalid_argument, "memory that is not of the rank's GPU");
  return NcclResult::success;
}

// Adds this rank to its next collective. REQUIRES: the mutex of the clique is locked.
void join(NcclCommunicator& mine, const Request& request, std::size_t bytes, StreamHandle stream,
          std::optional<NcclFault> fault) {
  Clique& clique = *mine.clique;
  const std::size_t number = mine.num_calls++;
  if (number == clique.collectives.size()) {
    clique.collectives.push_back(std::make_shared<Collective>(
        Collective{request.kind, bytes, request.type, request.root, mine.rank, {}}));
    clique.collectives.back()->parts.resize(clique.ranks.size());
    static std::atomic<std::size_t> num_sums = 0;
    if (clique.sums_in_switch) clique.collectives.back()->first_term = num_sums++;
  }
  const std::shared_ptr<Collective> all = clique.collectives[number];
  if (all->kind != request.kind || all->bytes != bytes || all->type != request.type ||
      all->root != request.root) {
    break_all(clique, NcclResult::invalid_usage,
              fmt::format("call {}: rank {} calls {}, and rank {} calls {}", number,
                          all->first_rank, describe(all->kind, all->bytes, all->type, all->root),
                          mine.rank, describe(request.kind, bytes, request.type, request.root)));
    return;
  }
  Collective::Part& part = all->parts[static_cast<std::size_t>(mine.rank)];
  part = {true, bytes_behind(request.from), bytes_behind(request.to),
          std::make_shared<emulated::Mark>(), std::make_shared<emulated::Mark>()};
  emulated::Worker& worker = emulated::Worker::instance();
  worker.add(stream->line, {.marks = part.arrived});
  worker.add(stream->line, {.waits = part.done});
  if (fault == NcclFault::hangs) {
    mine.never = std::make_shared<emulated::Mark>();
    worker.add(stream->line, {.waits = mine.never});
  }
  if (std::ranges::any_of(all->parts, [](const auto& of) { return !of.called; })) return;
  for (const Collective::Part& of : all->parts) worker.add(clique.line, {.waits = of.arrived});
  worker.add(clique.line, {.run = [&clique, all] { run_collective(clique, *all); }});
}

// Returns the error of a call in a group, which is then the group's.
NcclResult in_group(NcclResult result) {
  if (group.error == NcclResult::success && result != NcclResult::in_progress) group.error = result;
  return result;
}

NcclResult check_and_note(NcclCommunicator& mine, const Request& request, StreamHandle stream) {
  const std::size_t bytes = request.count * (request.type == NcclType::float32 ? 4 : 1);
  Clique& clique = *mine.clique;
  const std::lock_guard lock(clique.mutex);
  if (const NcclResult result = check_request(mine, request, bytes, stream);
      result != NcclResult::success)
    return result;
  const std::optional<NcclFault> fault = fault_of(mine.rank);
  if (fault == NcclFault::refuses)
    return refuse(mine, NcclResult::system_error, "the fake NCCL was asked to refuse");
  if (fault == NcclFault::breaks)
    return break_all(clique, NcclResult::remote_error, "the link was lost");
  mine.stream = stream;
  group.calls.emplace_back([&mine, request, bytes, stream, fault] {
    const std::lock_guard at_end(mine.clique->mutex);
    mine.calls.emplace_back(
        [&mine, request, bytes, stream, fault] { join(mine, request, bytes, stream, fault); });
    mine.looks = kLooks;
  });
  return NcclResult::success;
}

// Ends a communicator at the end of the group, or now if there is none.
NcclResult end_communicator(std::function<void()> end) {
  if (group.depth > 0) return group.ends.push_back(std::move(end)), NcclResult::in_progress;
  return end(), NcclResult::success;
}

// Ends the calls of a rank that others do not come to.
void end_calls(NcclCommunicator& mine) {
  Clique& clique = *mine.clique;
  const std::lock_guard lock(clique.mutex);
  mine.aborted = true;
  mine.calls.clear();
  if (mine.never) emulated::Worker::instance().reach(*mine.never);
  for (const auto& all : clique.collectives) {
    Collective::Part& part = all->parts[static_cast<std::size_t>(mine.rank)];
    if (!part.called) continue;
    emulated::Worker::instance().reach(*part.arrived);
    emulated::Worker::instance().reach(*part.done);
  }
}

namespace nccl_calls {

NcclResult begin_group() { return ++group.depth, NcclResult::success; }
// As of communicators that do not block.
NcclResult end_group() {
  if (group.depth == 0) return NcclResult::invalid_usage;
  if (--group.depth > 0) return NcclResult::success;
  const Group ended = std::exchange(group, {});
  if (ended.error == NcclResult::success)
    for (const auto& call : ended.calls) call();
  for (const auto& end : ended.ends) end();
  if (ended.error != NcclResult::success) return ended.error;
  return ended.calls.empty() && ended.ends.empty() ? NcclResult::success : NcclResult::in_progress;
}

NcclResult version(int* version) { return *version = 22809, NcclResult::success; }

NcclResult make_unique_id(UniqueId* id) {
  read_configuration();
  Nccl& nccl = Nccl::instance();
  const std::lock_guard lock(nccl.mutex);
  const std::string text = kMagic + std::to_string(nccl.cliques.size());
  *id = {};
  text.copy(id->bytes, sizeof(id->bytes) - 1);
  nccl.cliques.push_back(std::make_unique<Clique>());
  nccl.cliques.back()->line.device = emulated::kMostDevices;
  emulated::Worker::instance().open(nccl.cliques.back()->line);
  return NcclResult::success;
}

NcclResult connect(CommunicatorHandle* communicator, int num_ranks, const UniqueId& id, int rank,
                   const Config* config) {
  Clique* const clique = clique_of(id);
  if (!clique || num_ranks < 1 || rank < 0 || rank >= num_ranks || config->blocking != 0 ||
      config->magic != kConfigMagic || config->size < sizeof(Config))
    return NcclResult::invalid_argument;
  if (current_gpu < 0 || rank >= Nccl::instance().first_refused) return NcclResult::system_error;
  const std::lock_guard lock(clique->mutex);
  if (clique->ranks.empty()) {
    clique->ranks.resize(static_cast<std::size_t>(num_ranks));
    clique->sums_in_switch = allows_nvls();
  }
  if (std::ssize(clique->ranks) != num_ranks) return NcclResult::invalid_usage;
  for (const auto& other : clique->ranks)  // "Duplicate GPU detected"
    if (other && (other->rank == rank || other->gpu == current_gpu))
      return NcclResult::invalid_usage;
  auto& mine = clique->ranks[static_cast<std::size_t>(rank)];
  mine = std::make_unique<nccl::NcclCommunicator>(
      nccl::NcclCommunicator{.clique = clique, .rank = rank, .gpu = current_gpu});
  *communicator = mine.get();
  group.calls.emplace_back([&mine = *mine] {
    const std::lock_guard at_end(mine.clique->mutex);
    mine.has_come = true;
  });
  return NcclResult::in_progress;
}
NcclResult make_communicator(CommunicatorHandle* communicator, int num_ranks, UniqueId id, int rank,
                             Config* config) {
  begin_group();
  const NcclResult result = in_group(connect(communicator, num_ranks, id, rank, config));
  const NcclResult ended = end_group();
  return ended == NcclResult::success ? result : ended;
}

NcclResult abort(CommunicatorHandle communicator) {
  return end_communicator([communicator] { end_calls(*communicator); });
}

// Waits for the rank's work, as NCCL does.
NcclResult destroy(CommunicatorHandle communicator) {
  if (communicator->aborted) return NcclResult::invalid_usage;
  return end_communicator([communicator] {
    emulated::finish_all_work(communicator->gpu);
    end_calls(*communicator);
  });
}

NcclResult async_error(CommunicatorHandle communicator, NcclResult* error) {
  Clique& clique = *communicator->clique;
  const std::lock_guard lock(clique.mutex);
  if (!communicator->calls.empty() && --communicator->looks <= 0)
    for (const auto& call : std::exchange(communicator->calls, {}))
      if (communicator->error == NcclResult::success) call();
  *error = communicator->error;
  if (*error == NcclResult::success &&
      (!communicator->calls.empty() || std::ranges::any_of(clique.ranks, [](const auto& rank) {
        return !rank || !rank->has_come;
      })))
    *error = NcclResult::in_progress;
  return NcclResult::success;
}

NcclResult collective(NcclCommunicator& mine, const Request& request, StreamHandle stream) {
  begin_group();
  const NcclResult result = in_group(check_and_note(mine, request, stream));
  const NcclResult ended = end_group();
  return ended == NcclResult::success ? result : ended;
}

NcclResult all_reduce(const void* from, void* to, std::size_t count, NcclType type,
                      NcclReduction reduction, CommunicatorHandle communicator,
                      StreamHandle stream) {
  if (type != NcclType::float32 || reduction != NcclReduction::sum)
    return NcclResult::invalid_argument;
  return collective(*communicator, {CollectiveKind::all_reduce, from, to, count, type, 0}, stream);
}
NcclResult all_gather(const void* from, void* to, std::size_t count, NcclType type,
                      CommunicatorHandle communicator, StreamHandle stream) {
  return collective(*communicator, {CollectiveKind::all_gather, from, to, count, type, 0}, stream);
}
NcclResult broadcast(const void* from, void* to, std::size_t count, NcclType type, int root,
                     CommunicatorHandle communicator, StreamHandle stream) {
  return collective(*communicator, {CollectiveKind::broadcast, from, to, count, type, root},
                    stream);
}

const char* error_text(NcclResult error) {
  switch (error) {
    case NcclResult::success:
      return "no error";
    case NcclResult::unhandled_cuda_error:
      return "unhandled cuda error";
    case NcclResult::system_error:
      return "unhandled system error";
    case NcclResult::internal_error:
      return "internal error";
    case NcclResult::invalid_argument:
      return "invalid argument";
    case NcclResult::invalid_usage:
      return "invalid usage";
    case NcclResult::remote_error:
      return "remote process exited or there was a network error";
    case NcclResult::in_progress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* last_error(CommunicatorHandle communicator) {
  return communicator ? communicator->text.c_str() : "";
}

}  // namespace nccl_calls
}  // namespace

const NcclApi& nccl_api() {
  static constexpr NcclApi kApi = {
#define LAMINA_NCCL(field, symbol, parameters) .field = nccl_calls::field,
#include "backends/cuda/nccl/functions.def"
#undef LAMINA_NCCL
      .error_text = nccl_calls::error_text,
      .last_error = nccl_calls::last_error,
  };
  return kApi;
}

void fail_collective(NcclFault fault, int rank, int after) {
  Nccl& nccl = Nccl::instance();
  const std::lock_guard lock(nccl.mutex);
  nccl.fault = {fault, rank, after};
}

void refuse_to_connect(int first_rank) { Nccl::instance().first_refused = first_rank; }

int num_communicators() {
  std::vector<Clique*> cliques;
  {
    const std::lock_guard lock(Nccl::instance().mutex);
    for (const auto& clique : Nccl::instance().cliques) cliques.push_back(clique.get());
  }
  std::ptrdiff_t count = 0;
  for (Clique* clique : cliques) {
    const std::lock_guard lock(clique->mutex);
    count += std::ranges::count_if(clique->ranks,
                                   [](const auto& rank) { return rank && !rank->aborted; });
  }
  return static_cast<int>(count);
}

void reset_nccl() {
  Nccl& nccl = Nccl::instance();
  const std::lock_guard lock(nccl.mutex);
  nccl.fault.reset();
  nccl.first_refused = kMostRanks;
}

}  // namespace lamina::cuda::emulation
