// What one render may use, and what it has used. Templates come with models: they are programs of
// strangers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lamina::jinja {

struct Limits {
  std::uint64_t max_steps = 20'000'000;             // evaluations, and values looked at
  std::size_t max_output = std::size_t{16} << 20;   // characters
  std::size_t max_memory = std::size_t{512} << 20;  // bytes of values alive at one time
  unsigned max_depth = 1000;                        // evaluations inside each other
};

constexpr std::size_t kMaxSource = std::size_t{4} << 20;  // characters of a template
constexpr unsigned kMaxNesting = 200;  // parentheses, blocks or values inside each other
constexpr std::size_t kMaxText = std::size_t{16} << 20;  // characters of one string
constexpr std::int64_t kMaxRange = 100'000;

// Values count in the budget that was current on their thread when they were made, which must
// outlive them.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits), previous_(current_) { current_ = this; }
  ~Budget() { current_ = previous_; }
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  static Budget* current() { return current_; }
  // Work of the current render, if there is one; a Failure beyond the limit.
  static void step(std::uint64_t steps = 1) {
    if (current_ && (current_->steps_ += steps) > current_->limits_.max_steps) current_->exceed();
  }
  void take(std::size_t num_bytes);  // likewise
  void give_back(std::size_t num_bytes) { live_bytes_ -= num_bytes; }
  const Limits& limits() const { return limits_; }

 private:
  [[noreturn]] void exceed() const;
  const Limits limits_;
  std::uint64_t steps_ = 0;
  std::size_t live_bytes_ = 0;
  Budget* previous_;
  static thread_local Budget* current_;
};

}  // namespace lamina::jinja
