#include "backends/cuda/nccl/communicator.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "backends/cuda/context.h"
#include "backends/cuda/nccl/rank_wait.h"
#include "backends/cuda/queue.h"
#include "core/error.h"

namespace lamina::cuda::nccl {
namespace {

constexpr unsigned kConfigVersion = kOldestVersion;

const char* text_of(const char* text) { return text && *text ? text : "no reason"; }

// The state that all ranks of this process share.
struct Shared {
  const NcclApi& api;
  std::vector<std::string> names;
  std::chrono::milliseconds limit;
  std::vector<std::atomic<std::int64_t>> reached;  // by rank: collectives that its GPU came to
  std::atomic<bool> failed{false}, reported{false};

  Shared(const NcclApi& functions, std::span<const std::string> of, std::chrono::milliseconds most)
      : api(functions), names(of.begin(), of.end()), limit(most), reached(of.size()) {}
  std::string name(int rank) const {
    return fmt::format("rank {} ({})", rank, names[static_cast<std::size_t>(rank)]);
  }
};

class GpuRank final : public Communicator {
 public:
  GpuRank(std::shared_ptr<Shared> shared, const Backend& gpu, int rank)
      : shared_(std::move(shared)),
        gpu_(gpu),
        context_(static_cast<CudaContext&>(gpu.context())),
        rank_(rank),
        queue_(context_) {}
  ~GpuRank() override {
    if (!context_.try_enter()) return;
    if (shared_->failed || !pending_.empty())
      abort();
    else if (handle_)
      shared_->api.destroy(handle_);
  }
  GpuRank(const GpuRank&) = delete;
  GpuRank& operator=(const GpuRank&) = delete;

  int rank() const override { return rank_; }
  int num_ranks() const override { return static_cast<int>(shared_->names.size()); }
  const Backend& backend() const override { return gpu_; }
  Queue& queue() override { return queue_; }

  // Begins to connect; the other ranks follow.
  void begin_connecting(UniqueId id) {
    context_.enter();
    Config config{sizeof(Config), kConfigMagic, kConfigVersion, 0};
    check_result(shared_->api.make_communicator(&handle_, num_ranks(), id, rank_, &config),
                 "connecting the GPUs");
  }
  void finish_connecting() { settle("connecting the GPUs"); }

  void all_reduce(std::span<const TensorRef> tensors) override {
    std::size_t bytes = 0;
    for (const TensorRef& tensor : tensors) {
      LAMINA_ASSERT(tensor.type().dtype == DType::f32);
      bytes += tensor.bytes();
    }
    if (bytes == 0) return;
    begin("all_reduce", bytes, [&] {
      for (const TensorRef& tensor : tensors) {
        if (tensor.bytes() == 0) continue;
        void* const at = reinterpret_cast<void*>(tensor.address());
        const NcclResult result =
            shared_->api.all_reduce(at, at, tensor.bytes() / sizeof(float), NcclType::float32,
                                    NcclReduction::sum, handle_, queue_.stream());
        if (is_error(result)) return result;
      }
      return NcclResult::success;
    });
  }

  void all_gather(const TensorRef& to, const ConstTensorRef& from) override {
    LAMINA_ASSERT(to.bytes() == from.bytes() * static_cast<std::size_t>(num_ranks()));
    if (from.bytes() == 0) return;
    begin("all_gather", to.bytes(), [&] {
      return shared_->api.all_gather(reinterpret_cast<const void*>(from.address()),
                                     reinterpret_cast<void*>(to.address()), from.bytes(),
                                     NcclType::uint8, handle_, queue_.stream());
    });
  }

  void broadcast(const TensorRef& tensor, int root) override {
    if (tensor.bytes() == 0) return;
    void* const at = reinterpret_cast<void*>(tensor.address());
    begin("broadcast", tensor.bytes(), [&] {
      return shared_->api.broadcast(at, at, tensor.bytes(), NcclType::uint8, root, handle_,
                                    queue_.stream());
    });
  }

  // Never waits in the driver: work that waits for another rank may not end.
  void finish() override {
    context_.enter();
    RankWait wait(shared_->limit, shared_->reported);
    while (!pending_.empty()) {
      const Collective& first = pending_.front();
      if (is_ready(first.begin.get()))
        shared_->reached[static_cast<std::size_t>(rank_)] = first.number;
      if (is_ready(first.end.get())) {
        pending_.pop_front();
        wait.restart();
        continue;
      }
      check_peers(first.name);
      wait.pause([&](const std::string& time) { return text_of_late(first, time); });
    }
  }

  void abort() override {
    shared_->failed = true;
    if (!handle_) return;
    if (context_.api().set_context(context_.handle()) == DriverResult::success)
      shared_->api.abort(handle_);
    handle_ = nullptr;
  }

 private:
  struct Collective {
    std::int64_t number;  // counted from 1
    std::string name;     // "all_reduce 3 of 1024 bytes"
    OwnedEvent begin, end;
  };
  OwnedEvent record() const { return context_.record_event(queue_.stream(), kEventWithoutTime); }
  bool is_ready(EventHandle event) const {
    const DriverResult result = context_.api().query_event(event);
    if (result == DriverResult::not_ready) return false;
    check(context_.api(), result, "exchanging tensors");
    return true;
  }
  static bool is_error(NcclResult result) {
    return result != NcclResult::success && result != NcclResult::in_progress;
  }

  void check_result(NcclResult result, std::string_view action) const {
    if (!is_error(result)) return;
    fail(fmt::format("{} on {}: NCCL: {} ({})", action, shared_->name(rank_),
                     text_of(shared_->api.error_text(result)),
                     text_of(shared_->api.last_error(handle_))));
  }

  // Returns the state of this rank's calls. Throws if this rank or another one has failed.
  NcclResult check_peers(std::string_view action) const {
    if (shared_->failed)
      fail(fmt::format("{} on {}: another rank has failed", action, shared_->name(rank_)));
    NcclResult state = NcclResult::success;
    check_result(shared_->api.async_error(handle_, &state), action);
    check_result(state, action);
    return state;
  }

  // Calls of a communicator that does not block end later.
  void settle(std::string_view action) {
    context_.enter();
    RankWait wait(shared_->limit, shared_->reported);
    while (check_peers(action) != NcclResult::success)
      wait.pause([&](const std::string& time) {
        return fmt::format("{} on {}: not done after {}", action, shared_->name(rank_), time);
      });
  }

  template <typename Calls>
  void begin(std::string_view kind, std::size_t bytes, const Calls& calls) {
    context_.enter();
    const std::int64_t number = ++num_calls_;
    const std::string name = fmt::format("{} {} of {} bytes", kind, number, bytes);
    if (!handle_ || shared_->failed)
      fail(fmt::format("{} on {}: another rank has failed", name, shared_->name(rank_)));
    OwnedEvent began = record();
    check_result(shared_->api.begin_group(), name);
    const NcclResult called = calls();
    const NcclResult ended = shared_->api.end_group();  // also after an error: it closes the group
    check_result(called, name);
    check_result(ended, name);
    settle(name);
    pending_.push_back({number, name, std::move(began), record()});
  }

  // Names the ranks that others wait for.
  std::string text_of_late(const Collective& late, const std::string& time) const {
    std::string missing;
    for (int rank = 0; rank < num_ranks(); ++rank)
      if (shared_->reached[static_cast<std::size_t>(rank)] < late.number)
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", shared_->name(rank));
    return missing.empty()
               ? fmt::format("{} did not end on {} within {}, although all ranks came to it",
                             late.name, shared_->name(rank_), time)
               : fmt::format("{} did not come to {} within {}", missing, late.name, time);
  }

  std::shared_ptr<Shared> shared_;
  const Backend& gpu_;
  CudaContext& context_;
  int rank_;
  CudaQueue queue_;
  CommunicatorHandle handle_ = nullptr;
  std::int64_t num_calls_ = 0;
  std::deque<Collective> pending_;
};

// Sums of NVLS are added by the switch, in an order that differs between calls (NVIDIA/nccl issue
// 1497). NCCL takes it by itself on GPUs with NVSwitch. A choice of the user stays: the first call
// of NCCL has added the variables of its configuration files to the environment.
void exclude_nvls() { setenv("NCCL_ALGO", "^NVLS", 0); }

}  // namespace

std::vector<std::unique_ptr<Communicator>> connect(const NcclApi& api,
                                                   std::span<const Backend* const> gpus,
                                                   std::span<const std::string> names,
                                                   std::chrono::milliseconds limit) {
  LAMINA_ASSERT(gpus.size() == names.size());
  const auto shared = std::make_shared<Shared>(api, names, limit);
  UniqueId id = {};
  if (const NcclResult result = api.make_unique_id(&id); result != NcclResult::success)
    fail(fmt::format("connecting the GPUs: NCCL: {}", text_of(api.error_text(result))));
  exclude_nvls();
  std::vector<GpuRank*> made;
  std::vector<std::unique_ptr<Communicator>> out;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    auto communicator = std::make_unique<GpuRank>(shared, *gpus[i], static_cast<int>(i));
    made.push_back(communicator.get());
    out.push_back(std::move(communicator));
  }
  // One thread connects all ranks, which is allowed in a group only.
  bool in_group = false;
  try {
    if (api.begin_group() != NcclResult::success) fail("connecting the GPUs: NCCL begins no group");
    in_group = true;
    for (GpuRank* communicator : made) communicator->begin_connecting(id);
    in_group = false;
    if (const NcclResult result = api.end_group();
        result != NcclResult::success && result != NcclResult::in_progress)
      fail(fmt::format("connecting the GPUs: NCCL: {}", text_of(api.error_text(result))));
    for (GpuRank* communicator : made) communicator->finish_connecting();
  } catch (...) {
    if (in_group) api.end_group();  // NCCL aborts nothing before a group has ended
    shared->failed = true;          // destructors abort
    throw;
  }
  return out;
}

}  // namespace lamina::cuda::nccl
