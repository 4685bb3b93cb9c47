// The fake driver: memory.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backends/cuda/emulation/driver_state.h"
#include "backends/emulated/memory.h"
#include "core/error.h"

namespace lamina::cuda::emulation {
namespace {

constexpr int kPoison = 0xff;

// True if the range is inside one allocation of the current GPU, or elsewhere in memory of the
// host. Copies between GPUs are not in use.
bool is_valid_range(DevicePointer at, std::size_t bytes) {
  if (const int gpu = emulated::device_of(at); gpu >= 0 && gpu != current_gpu) return false;
  const std::span<std::byte> memory = emulated::buffer_behind(at);
  void* const behind = emulated::behind(at);
  if (memory.empty()) return behind == reinterpret_cast<void*>(at);
  return static_cast<std::size_t>(memory.data() + memory.size() -
                                  static_cast<std::byte*>(behind)) >= bytes;
}

// True for memory of the host that allocate_host() has not made.
bool is_pageable(DevicePointer at) {
  if (!emulated::buffer_behind(at).empty()) return false;
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  return std::ranges::none_of(driver.host_memory, [&](const auto& pinned) {
    const auto begin = reinterpret_cast<DevicePointer>(pinned.first);
    return at >= begin && at < begin + pinned.second;
  });
}

// Waits for all work of the stream.
DriverResult finish(DriverStream& stream) {
  ++counts().waits;
  const auto end = std::make_shared<emulated::Mark>();
  emulated::Worker::instance().add(stream.line, {.marks = end});
  emulated::Worker::instance().wait(*end);
  return state();
}

}  // namespace

namespace calls {

DriverResult memory_info(std::size_t* free, std::size_t* total) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  *total = memory_bytes(current_gpu);
  return *free = memory_bytes(current_gpu) - DriverState::instance().gpu(current_gpu).used,
         DriverResult::success;
}

DriverResult allocate(DevicePointer* address, std::size_t bytes) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (const DriverResult result = refuse_in_capture(); result != DriverResult::success)
    return result;
  if (bytes == 0) return DriverResult::invalid_value;
  ++counts().allocations;
  DriverState& driver = DriverState::instance();
  if (driver.is_fault(current_gpu, FaultPlace::allocation)) return DriverResult::out_of_memory;
  if (bytes > memory_bytes(current_gpu) - driver.gpu(current_gpu).used)
    return DriverResult::out_of_memory;
  try {
    std::unique_ptr<Buffer> buffer = emulated::allocate_inaccessible(bytes, current_gpu);
    *address = buffer->address();
    std::memset(emulated::behind(*address), kPoison, bytes);
    const std::lock_guard lock(driver.mutex);
    driver.gpu(current_gpu).used += bytes;
    driver.memory.emplace(*address, std::move(buffer));
    return DriverResult::success;
  } catch (const DeviceError&) {
    return DriverResult::out_of_memory;
  }
}

// Waits for all work, like the driver.
DriverResult free(DevicePointer address) {
  if (const DriverResult result = refuse_in_capture(); result != DriverResult::success)
    return result;
  ++counts().waits;
  DriverState& driver = DriverState::instance();
  std::unique_ptr<Buffer> buffer;
  {
    const std::lock_guard lock(driver.mutex);
    const auto found = driver.memory.find(address);
    if (found == driver.memory.end()) return DriverResult::invalid_value;
    buffer = std::move(found->second);
    driver.gpu(emulated::device_of(address)).used -= buffer->bytes();
    driver.memory.erase(found);
  }
  buffer.reset();
  return state();
}

DriverResult allocate_host(void** memory, std::size_t bytes, unsigned) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (const DriverResult result = refuse_in_capture(); result != DriverResult::success)
    return result;
  if (bytes == 0) return DriverResult::invalid_value;
  ++counts().allocations;
  constexpr std::size_t kPage = 4096;
  *memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (!*memory) return DriverResult::out_of_memory;
  std::memset(*memory, kPoison, bytes);
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  driver.host_memory.emplace(*memory, bytes);
  driver.pinned += bytes;
  driver.most_pinned = std::max(driver.most_pinned, driver.pinned);
  return DriverResult::success;
}
DriverResult free_host(void* memory) {
  if (const DriverResult result = refuse_in_capture(); result != DriverResult::success)
    return result;
  ++counts().waits;
  DriverState& driver = DriverState::instance();
  {
    const std::lock_guard lock(driver.mutex);
    const auto found = driver.host_memory.find(memory);
    if (found == driver.host_memory.end()) return DriverResult::invalid_value;
    driver.pinned -= found->second;
    driver.host_memory.erase(found);
  }
  if (current_gpu >= 0) emulated::finish_all_work(current_gpu);
  std::free(memory);
  return state();
}

// A copy of pageable memory may be synchronous ("API synchronization behavior"), and is here.
DriverResult copy(DevicePointer to, DevicePointer from, std::size_t bytes, StreamHandle stream) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (const DriverResult result = stream_state(stream); result != DriverResult::success)
    return result;
  if (!is_valid_range(to, bytes) || !is_valid_range(from, bytes))
    return DriverResult::invalid_value;
  const bool is_to_host =
      emulated::buffer_behind(to).empty() && !emulated::buffer_behind(from).empty();
  add(stream, DriverGraph::Kind::copy,
      [to = emulated::behind(to), from = emulated::behind(from), bytes, is_to_host] {
        std::memmove(to, from, bytes);
        if (is_to_host) counts().bytes_to_host += static_cast<std::int64_t>(bytes);
      });
  if (!stream->place.is_captured() && (is_pageable(to) || is_pageable(from)))
    return finish(*stream);
  return DriverResult::success;
}

DriverResult fill(DevicePointer to, unsigned char value, std::size_t bytes, StreamHandle stream) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (const DriverResult result = stream_state(stream); result != DriverResult::success)
    return result;
  if (emulated::buffer_behind(to).empty() || !is_valid_range(to, bytes))
    return DriverResult::invalid_value;
  add(stream, DriverGraph::Kind::fill,
      [to = emulated::behind(to), value, bytes] { std::memset(to, value, bytes); });
  return DriverResult::success;
}

}  // namespace calls
}  // namespace lamina::cuda::emulation
