// The signal handler can run at any time, so it takes no lock, allocates nothing, and reads a list
// whose nodes are never freed: the node of a removed mapping is reused.
#include "io/mapping_faults.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "core/end_process.h"
#include "core/printable.h"
#include "core/write_all.h"

namespace lamina::io {
namespace {

struct Mapping {
  std::atomic<const std::byte*> begin{nullptr};  // null: the node is free
  std::atomic<const std::byte*> end{nullptr};
  std::string message;  // constant while `begin` is set
  int code = 0;
  Mapping* next = nullptr;
};

std::atomic<Mapping*> first_mapping{nullptr};
struct sigaction action_before;

// One writer at a time. Never destroyed, because mappings may outlive static objects.
std::mutex& writers() {
  static std::mutex* const mutex = new std::mutex;
  return *mutex;
}

const Mapping* mapping_at(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  for (const Mapping* m = first_mapping.load(std::memory_order_acquire); m; m = m->next) {
    const std::byte* begin = m->begin.load(std::memory_order_acquire);
    if (begin && at >= begin && at < m->end.load(std::memory_order_relaxed)) return m;
  }
  return nullptr;
}

void handle(int signal, siginfo_t* info, void*) {
  // A positive code means a fault with a known address; other signals were sent by a process.
  if (const Mapping* m = info->si_code > 0 ? mapping_at(info->si_addr) : nullptr) {
    (void)write_all(STDERR_FILENO, m->message);
    end_process(m->code);
  }
  // A fault recurs when this returns; a sent signal is sent again.
  ::sigaction(signal, &action_before, nullptr);
  if (info->si_code <= 0) ::raise(signal);
}

}  // namespace

void report_mapping_faults() {
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &action_before);
}

void list_mapping(std::span<const std::byte> bytes, const std::string& path, ExitCode code) {
  const std::lock_guard lock(writers());
  Mapping* node = first_mapping.load(std::memory_order_relaxed);
  while (node && node->begin.load(std::memory_order_relaxed)) node = node->next;
  const bool added = node == nullptr;
  if (added) node = new Mapping;
  node->message = fmt::format(
      "error: {}: can no longer be read: it was truncated while in use, or its disk failed; files "
      "must not change until the program ends\n  check the file and run again\n",
      printable(path, path.size()));
  node->code = static_cast<int>(code);
  node->end.store(bytes.data() + bytes.size(), std::memory_order_relaxed);
  node->begin.store(bytes.data(), std::memory_order_release);
  if (!added) return;
  node->next = first_mapping.load(std::memory_order_relaxed);
  first_mapping.store(node, std::memory_order_release);
}

void unlist_mapping(std::span<const std::byte> bytes) {
  const std::lock_guard lock(writers());
  Mapping* node = first_mapping.load(std::memory_order_relaxed);
  while (node && node->begin.load(std::memory_order_relaxed) != bytes.data()) node = node->next;
  if (node) node->begin.store(nullptr, std::memory_order_release);
}

}  // namespace lamina::io
