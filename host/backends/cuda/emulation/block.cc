#include "backends/cuda/emulation/block.h"

#include <cstring>
#include <utility>

#include "backends/emulated/memory.h"
#include "core/error.h"

namespace lamina::cuda::emulation {
namespace {

thread_local BlockThreads* current_block = nullptr;

// Fibers of this thread of the host, for all blocks: to make one takes longer than to run many
// threads.
struct Fibers {
  std::vector<std::unique_ptr<Fiber>> all;
  std::vector<Fiber*> idle;

  Fiber* take(void (*body)(Fiber&)) {
    if (idle.empty()) {
      all.push_back(std::make_unique<Fiber>(body));
      return all.back().get();
    }
    Fiber* const out = idle.back();
    idle.pop_back();
    return out;
  }
  // Unwinds the waiting threads.
  void end() {
    idle.clear();
    all.clear();
  }
};
thread_local Fibers fibers;

bool same_line(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

// Returns eg: "softmax/kernels.cu:21".
std::string text_of(const std::source_location& where) {
  std::string_view file = where.file_name();
  constexpr std::string_view kFolder = "backends/cuda/";
  if (const auto at = file.rfind(kFolder); at != file.npos) file.remove_prefix(at + kFolder.size());
  return fmt::format("{}:{}", file, where.line());
}

}  // namespace

BlockThreads& BlockThreads::current() { return *current_block; }

BlockThreads::BlockThreads(const gpu::EmulatedKernel& kernel, const void* params,
                           const GridShape& shape, int gpu)
    : shared(shape.shared_bytes), kernel_(kernel), params_(params), gpu_(gpu) {
  launch_ = {kernel.name, shape.threads, shape.blocks};
  threads_.resize(static_cast<std::size_t>(shape.threads));
  warps_.resize((threads_.size() + 31) / 32);
  for (Lanes& warp : warps_) warp.operands.resize(32);
  if (kernel.has_warpgroups) {
    warpgroups_.resize((threads_.size() + gpu::kWarpgroupSize - 1) / gpu::kWarpgroupSize);
    for (Lanes& warpgroup : warpgroups_) warpgroup.operands.resize(gpu::kWarpgroupSize);
    products_ = std::make_unique<WarpgroupProducts>(shared, shape.threads);
  }
  current_block = this;
}

BlockThreads::~BlockThreads() { current_block = nullptr; }

void BlockThreads::start(const std::array<int, 3>& index) {
  block_.index = index;
  shared.poison();
  num_ended_ = at_barrier_ = 0;
  if (products_) products_->start();
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    Thread& thread = threads_[i];
    thread.visible = {.index = static_cast<int>(i),
                      .block = &block_,
                      .launch = &launch_,
                      .watches_shared = checks_races() || products_,
                      .has_waited = kernel_.wait != gpu::EmulatedWait::in_body};
    thread.fiber = nullptr;
    thread.ended = false;
    thread.wait = Wait::nothing;
    thread.copies.clear();
    thread.copy_group = 0;
  }
  for (Lanes& warp : warps_) warp.arrived = 0;
  for (Lanes& warpgroup : warpgroups_) warpgroup.arrived = 0;
}

void BlockThreads::run(const std::array<int, 3>& index, OrderDraws draws) {
  draws_ = draws;
  newest_first_ = draws_.next() % 2 == 0;
  start(index);
  push_ready(0, launch_.num_threads, -1);
  while (!ready_.empty() && !error_) resume(take_ready());
  gpu::this_thread = nullptr;
  if (!error_ && num_ended_ == launch_.num_threads) return;
  ready_.clear();
  fibers.end();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  report_stuck();
}

void BlockThreads::push_ready(int first, int count, int except) {
  StepOrder order(count, draws_);
  for (int i = 0; i < count; ++i) {
    const int thread = first + static_cast<int>(order.next());
    if (thread != except) ready_.push_back(thread);
  }
}

int BlockThreads::take_ready() {
  const int thread = newest_first_ ? ready_.back() : ready_.front();
  newest_first_ ? ready_.pop_back() : ready_.pop_front();
  return thread;
}

bool BlockThreads::next_is_fresh() const {
  if (ready_.empty()) return false;
  const int thread = newest_first_ ? ready_.back() : ready_.front();
  return threads_[static_cast<std::size_t>(thread)].fiber == nullptr;
}

void BlockThreads::resume(int index) {
  Thread& thread = threads_[static_cast<std::size_t>(index)];
  if (!thread.fiber) {
    thread.fiber = fibers.take(serve);
    thread.fiber->thread = index;
  }
  gpu::this_thread = &thread.visible;
  thread.fiber->resume();
}

// The body of each fiber: one block after the other.
void BlockThreads::serve(Fiber& fiber) {
  for (;;) {
    current().run_threads(fiber);
    fibers.idle.push_back(&fiber);
    fiber.suspend();
  }
}

// Runs threads one after the other, without a switch where a thread ends without having waited.
void BlockThreads::run_threads(Fiber& fiber) {
  run_thread(fiber.thread);
  while (!error_ && next_is_fresh()) {
    fiber.thread = take_ready();
    Thread& thread = threads_[static_cast<std::size_t>(fiber.thread)];
    thread.fiber = &fiber;
    gpu::this_thread = &thread.visible;
    run_thread(fiber.thread);
  }
}

void BlockThreads::run_thread(int thread) {
  try {
    kernel_.run(params_);
    if (!gpu::this_thread->has_waited) gpu::fault("ends without wait_for_earlier()");
    if (products_ && !products_->all_ended(thread, gpu::this_thread->products_done))
      gpu::fault("ends before its products; expected wait_products<0>()");
  } catch (const std::exception&) {
    error_ = std::current_exception();
  }
  threads_[static_cast<std::size_t>(thread)].ended = true;
  ++num_ended_;
}

void BlockThreads::suspend(Wait wait, const std::source_location& where) {
  Thread& thread = me();
  thread.wait = wait;
  thread.where = where;
  thread.fiber->suspend();
  thread.wait = Wait::nothing;
}

void BlockThreads::wait_for_block(const std::source_location& where) {
  if (at_barrier_ == 0) barrier_line_ = where;
  if (!same_line(where, barrier_line_))
    gpu::fault("waits for the block at %s, but other threads at %s", text_of(where).c_str(),
               text_of(barrier_line_).c_str());
  if (++at_barrier_ < launch_.num_threads) return suspend(Wait::block, where);
  at_barrier_ = 0;
  shared.end_epoch();
  if (products_) products_->end_epoch();
  push_ready(0, launch_.num_threads, gpu::this_thread->index);
}

bool BlockThreads::arrive(Lanes& lanes, int count, Wait wait, void* operands,
                          void (*collective)(void* const*), const std::source_location& where) {
  const int index = gpu::this_thread->index, first = index / count * count;
  const char* const name = wait == Wait::warp ? "warp" : "warpgroup";
  if (launch_.num_threads - first < count)
    gpu::fault("uses all %d lanes of its %s at %s, but the %s has %d", count, name,
               text_of(where).c_str(), name, launch_.num_threads - first);
  if (lanes.arrived == 0) lanes.collective = collective, lanes.where = where;
  if (lanes.collective != collective || !same_line(where, lanes.where))
    gpu::fault("waits for its %s at %s, but other lanes at %s", name, text_of(where).c_str(),
               text_of(lanes.where).c_str());
  lanes.operands[static_cast<std::size_t>(index - first)] = operands;
  if (++lanes.arrived < count) return suspend(wait, where), false;
  lanes.arrived = 0;
  if (collective) collective(lanes.operands.data());
  push_ready(first, count, index);
  return true;
}

void BlockThreads::in_warp(void* operands, void (*collective)(void* const*),
                           const std::source_location& where) {
  const int number = gpu::this_thread->index / 32;
  const bool last =
      arrive(warps_[static_cast<std::size_t>(number)], 32, Wait::warp, operands, collective, where);
  if (last && !collective) shared.end_warp_epoch(number);
}

void BlockThreads::in_warpgroup(void* operands, void (*collective)(void* const*),
                                const std::source_location& where) {
  if (!products_) gpu::fault("uses a warpgroup; expected a kernel of LAMINA_GPU_KERNEL_90");
  const auto number = static_cast<std::size_t>(gpu::this_thread->index / gpu::kWarpgroupSize);
  arrive(warpgroups_[number], gpu::kWarpgroupSize, Wait::warpgroup, operands, collective, where);
}

void BlockThreads::fence_async() {
  if (products_) products_->fence(gpu::this_thread->index);
}

void BlockThreads::wait_until_products(int groups) {
  gpu::EmulatedThread& thread = *gpu::this_thread;
  const int before = thread.products_done;
  thread.products_done = std::max(before, thread.product_group - 1 - groups);
  if (products_) products_->end_groups(thread.index, before, thread.products_done);
}

void BlockThreads::note(const std::byte* at, std::int64_t bytes, bool writes) {
  const int thread = gpu::this_thread->index;
  if (checks_races()) shared.note(thread, at, bytes, writes);
  if (products_ && writes) products_->note_write(thread, at, bytes);
}

void BlockThreads::add_copy(void* to, const void* from, std::int64_t bytes) {
  if (products_) products_->check_unread(static_cast<const std::byte*>(to), bytes);
  me().copies.push_back({to, from, bytes, me().copy_group});
}

void BlockThreads::commit_copies() { ++me().copy_group; }

void BlockThreads::wait_until_copies(int groups) {
  Thread& thread = me();
  while (!thread.copies.empty() && thread.copies.front().group < thread.copy_group - groups) {
    const Copy copy = thread.copies.front();
    thread.copies.pop_front();
    gpu::detail::note(copy.to, copy.bytes, true);
    std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.bytes));
  }
}

gpu::detail::Located BlockThreads::locate(gpu::Address address) {
  const auto offset_in = [&](const Found& found) {
    return static_cast<std::int64_t>(address.value - found.begin);
  };
  for (const Found& found : found_)
    if (address.value >= found.begin && address.value < found.end)
      return {found.extent, offset_in(found)};
  if (const int owner = emulated::device_of(address.value); owner >= 0 && owner != gpu_)
    gpu::fault("uses memory of GPU %d on GPU %d, without peer access", owner, gpu_);
  const std::span<std::byte> memory = emulated::buffer_behind(address.value);
  if (memory.empty()) {
    // Every access faults, as one outside of an allocation, so the place is aligned for any type.
    alignas(16) static std::byte nothing{};
    return {{&nothing, 0}, 0};
  }
  Found& found = found_[next_found_++ % found_.size()];
  const auto offset = static_cast<std::uint64_t>(
      static_cast<const std::byte*>(emulated::behind(address.value)) - memory.data());
  found = {address.value - offset,
           address.value - offset + memory.size(),
           {memory.data(), static_cast<std::int64_t>(memory.size())}};
  return {found.extent, offset_in(found)};
}

std::string BlockThreads::here() const {
  std::string block = fmt::format("{}", block_.index[0]);
  if (launch_.num_blocks[1] > 1 || launch_.num_blocks[2] > 1)
    block = fmt::format("({}, {}, {})", block_.index[0], block_.index[1], block_.index[2]);
  std::string out = fmt::format("{}, block {}", launch_.kernel, block);
  if (gpu::this_thread) out += fmt::format(", thread {}", gpu::this_thread->index);
  return out;
}

// No thread can run, and not all have ended.
void BlockThreads::report_stuck() const {
  const Thread* waiting = nullptr;
  const Thread* other = nullptr;
  for (const Thread& thread : threads_)
    if (!thread.ended && (!waiting || thread.wait == Wait::block)) waiting = &thread;
  for (const Thread& thread : threads_)
    if (thread.ended || thread.wait != waiting->wait) other = &thread;
  const auto name = [](Wait wait) {
    return wait == Wait::block ? "block" : wait == Wait::warp ? "warp" : "warpgroup";
  };
  std::string text = fmt::format("thread {} waits for its {} at {}", waiting->visible.index,
                                 name(waiting->wait), text_of(waiting->where));
  if (other && other->ended)
    text += fmt::format(", but thread {} has ended", other->visible.index);
  else if (other)
    text += fmt::format(", but thread {} for its {} at {}", other->visible.index, name(other->wait),
                        text_of(other->where));
  throw DeviceError(ExitCode::memory, {here(), text, {}});
}

}  // namespace lamina::cuda::emulation
