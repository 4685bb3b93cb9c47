// The kernels of a backend: for each op a list of candidates, best first.
//
//   const KernelChoice kRmsNorm[] = {{"avx512", supports, make}, ...};
//
// A candidate accepts or refuses a node from its types and attributes alone. `make` prepares
// everything that a run needs (blocking, library objects) with the context of its backend, so that
// `run` neither allocates nor decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "graph/call.h"

namespace lamina {

class Context;
class Queue;

// Acceptance, or a sentence with the reason of a refusal ("needs avx512_bf16", "only f32 and bf16,
// got f64").
struct Verdict {
  std::string why_not;
  explicit operator bool() const { return why_not.empty(); }
  static Verdict yes() { return {}; }
  static Verdict no(std::string why) { return {std::move(why)}; }
};

struct KernelArgs {
  std::span<const void* const> inputs;  // null for an absent optional input
  std::span<void* const> outputs;  // dense, row-major; null for an unused one, except the first
  std::byte* workspace = nullptr;  // 64-byte aligned, workspace_bytes() long
  Queue* queue = nullptr;          // that runs this work
};

// The work of one node, ready to run. Queue::enqueue calls run() from one thread at a time: a CPU
// kernel computes in it, a kernel of another device launches its work on args.queue.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual void run(const KernelArgs& args) = 0;
  // Returns decisions beyond the choice's name, for people, eg: "rows avx512_bf16".
  virtual std::string detail() const { return {}; }
};

inline constexpr std::uint32_t kInPlaceAny = ~0u;
constexpr std::uint32_t in_place_of(int input) { return 1u << input; }

struct KernelChoice {
  std::string_view name;  // "onednn", "avx512 stream", "reference"
  Verdict (*supports)(const NodeView&);
  std::unique_ptr<Kernel> (*make)(const NodeView&, Context&);
  // Bit i: an output may be written over input i, if both have the same type and input i is not
  // read later.
  std::uint32_t in_place = 0;
  // True if unused outputs need memory too, because run() accepts no null.
  bool writes_all = false;
};

// Wraps a function `void(const KernelArgs&)` as a Kernel.
template <typename Fn>
std::unique_ptr<Kernel> make_kernel(Fn fn, std::size_t workspace_bytes = 0) {
  struct FunctionKernel final : Kernel {
    FunctionKernel(Fn f, std::size_t size) : fn(std::move(f)), bytes(size) {}
    std::size_t workspace_bytes() const override { return bytes; }
    void run(const KernelArgs& args) override { fn(args); }
    Fn fn;
    std::size_t bytes;
  };
  return std::make_unique<FunctionKernel>(std::move(fn), workspace_bytes);
}

}  // namespace lamina
