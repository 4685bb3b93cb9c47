// The limits of one render and its use of them. Templates come with models: they are untrusted
// programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace lamina::jinja {

struct Limits {
  std::uint64_t max_steps = 20'000'000;            // evaluations, and values visited
  std::size_t max_output = std::size_t{16} << 20;  // characters
  std::size_t max_memory = std::size_t{512}
                           << 20;  // bytes of values and of work on them, at one time
  unsigned max_depth = 1000;       // nested evaluations
};

constexpr std::size_t kMaxSource = std::size_t{4} << 20;  // characters of a template
constexpr unsigned kMaxNesting = 200;                     // nested parentheses, blocks or values
constexpr std::size_t kMaxText = std::size_t{16} << 20;   // characters of one string
constexpr std::int64_t kMaxRange = 100'000;

// Values count in the budget that was current on their thread when they were made; it must outlive
// them.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits), previous_(current_) { current_ = this; }
  ~Budget() { current_ = previous_; }
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  static Budget* current() { return current_; }
  // Counts work of the current render, if there is one; throws Failure beyond the limit.
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

// Allocates memory that counts in the budget that was current when the container was made. Every
// string and list of a render uses it, so no size can exceed the limit unnoticed. Throws Failure
// beyond the limit, before anything is allocated.
template <typename T>
class CountedAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  CountedAllocator() = default;
  template <typename U>
  CountedAllocator(const CountedAllocator<U>& other) : budget_(other.budget()) {}

  T* allocate(std::size_t count) {
    if (count > kMost) throw std::bad_array_new_length();
    if (budget_) budget_->take(count * sizeof(T) + kBlockBytes);
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    if (budget_) budget_->give_back(count * sizeof(T) + kBlockBytes);
    std::allocator<T>().deallocate(memory, count);
  }
  CountedAllocator select_on_container_copy_construction() const { return {}; }
  Budget* budget() const { return budget_; }
  friend bool operator==(const CountedAllocator&, const CountedAllocator&) = default;

 private:
  static constexpr std::size_t kBlockBytes = 16;  // the heap's overhead per block
  static constexpr std::size_t kMost = (SIZE_MAX - kBlockBytes) / sizeof(T);
  Budget* budget_ = Budget::current();
};

template <typename T>
using Vector = std::vector<T, CountedAllocator<T>>;

// Memory of the current render that is not in a Counted container, eg of a library function.
class Held {
 public:
  explicit Held(std::size_t num_bytes) : budget_(Budget::current()), num_bytes_(num_bytes) {
    if (budget_) budget_->take(num_bytes_);
  }
  ~Held() {
    if (budget_) budget_->give_back(num_bytes_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  Budget* budget_;
  std::size_t num_bytes_;
};

}  // namespace lamina::jinja
