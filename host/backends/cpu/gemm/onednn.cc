// oneDNN matmul primitives, created and run as single-threaded products.
#include "backends/cpu/gemm/onednn.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dnnl.hpp>
#include <limits>
#include <new>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/write_all.h"

namespace lamina::cpu {
namespace {

using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

// If OpenMP's runtime has no memory, it calls exit(1). This replaces the exit code by ours.
thread_local int openmp_calls = 0;

void exit_of_openmp() {
  if (openmp_calls == 0) return;
  static_cast<void>(write_all(STDERR_FILENO, "error: out of memory\n"));
  _exit(static_cast<int>(ExitCode::memory));
}

// Makes OpenMP offer one thread, because oneDNN plans for and starts as many threads as OpenMP
// offers.
class OneThread {
 public:
  OneThread() {
    ++openmp_calls;
    before_ = onednn_threads();
    set_onednn_threads(1);
  }
  ~OneThread() {
    set_onednn_threads(before_);
    --openmp_calls;
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// Returns the version, eg: "2.6.3".
std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

[[noreturn]] void fail(dnnl_status_t status, std::string_view what) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  throw DeviceError(
      ExitCode::unclassified,
      {"cpu",
       fmt::format("oneDNN {} {} (status {})", onednn_version(), what, static_cast<int>(status)),
       {}});
}

// Throws if little memory is left, because oneDNN does not survive all failed allocations while it
// prepares a product.
void require_headroom() {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  void* map = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  munmap(map, kBytes);
}

struct Descriptions {
  memory::desc a, b, bias, c;
};

Descriptions describe(const OnednnShape& s) {
  Descriptions d;
  d.a = memory::desc({s.m, s.k}, type_of(s.in), {s.a_row_stride, s.a_col_stride});
  d.b = memory::desc({s.k, s.n}, type_of(s.in), {s.b_row_stride, s.b_col_stride});
  if (s.bias) d.bias = memory::desc({1, s.n}, type_of(*s.bias), memory::format_tag::ab);
  d.c = memory::desc({s.m, s.n}, type_of(s.out), memory::dims{s.ldc, 1});
  return d;
}

dnnl::matmul::primitive_desc create(const OnednnShape& s, const Descriptions& d) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.accumulate) {
    dnnl::post_ops operations;
    operations.append_sum(1.0f);
    attributes.set_post_ops(operations);
  }
#if DNNL_VERSION_MAJOR >= 3
  return s.bias ? dnnl::matmul::primitive_desc(engine(), d.a, d.b, d.bias, d.c, attributes)
                : dnnl::matmul::primitive_desc(engine(), d.a, d.b, d.c, attributes);
#else
  return s.bias ? dnnl::matmul::primitive_desc({d.a, d.b, d.bias, d.c}, attributes, engine())
                : dnnl::matmul::primitive_desc({d.a, d.b, d.c}, attributes, engine());
#endif
}

// oneDNN takes mutable pointers for everything; it does not write its inputs.
void* mutable_pointer(const void* pointer) { return const_cast<void*>(pointer); }

// Memory objects are wrappers around a pointer, so every thread needs its own. They are made when a
// thread first runs the product, because few products use all threads of a large machine, and
// making them for all would take longer than the rest of compiling.
struct ThreadState {
  dnnl::stream stream;
  memory a, b, bias, c, scratch;
};

}  // namespace

struct OnednnProduct::State {
  OnednnShape shape;
  memory::desc bias;
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  mutable std::vector<ThreadState> threads;

  ThreadState& of_thread(int thread) const {
    ThreadState& t = threads[static_cast<std::size_t>(thread)];
    if (!t.stream) prepare(t);
    return t;
  }

 private:
  void prepare(ThreadState& t) const try {
    require_headroom();
    t.a = memory(description.src_desc(), engine(), nullptr);
    t.b = memory(description.weights_desc(), engine(), nullptr);
    if (shape.bias) t.bias = memory(bias, engine(), nullptr);
    t.c = memory(description.dst_desc(), engine(), nullptr);
    t.scratch = memory(description.scratchpad_desc(), engine(), nullptr);
    t.stream = dnnl::stream(engine());
  } catch (const dnnl::error& e) {
    fail(e.status, "cannot prepare a product");
  }
};

OnednnProduct::OnednnProduct(std::unique_ptr<State> state) : state_(std::move(state)) {}
OnednnProduct::~OnednnProduct() = default;

std::unique_ptr<OnednnProduct> OnednnProduct::make(const OnednnShape& shape, int num_threads,
                                                   std::string* why) {
  if (const std::string& problem = open_onednn(); !problem.empty()) {
    *why = problem;
    return nullptr;
  }
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (std::max({shape.m, shape.n, shape.k}) > kMax) {  // oneDNN counts blocks with 32 bits
    *why = fmt::format("oneDNN {} takes no dims above {}", onednn_version(), kMax);
    return nullptr;
  }
  require_headroom();
  [[maybe_unused]] static const int registered = std::atexit(exit_of_openmp);
  try {
    const OneThread one_thread;
    auto state = std::make_unique<State>();
    state->shape = shape;
    const Descriptions d = describe(shape);
    state->description = create(shape, d);
    const std::string_view kernel = state->description.impl_info_str();
    if (kernel.substr(0, 3) == "ref") {
      *why = fmt::format("oneDNN {} has only its reference code ({}) for this product",
                         onednn_version(), kernel);
      return nullptr;
    }
    state->primitive = dnnl::matmul(state->description);
    state->bias = d.bias;
    state->threads.resize(static_cast<std::size_t>(num_threads));
    return std::unique_ptr<OnednnProduct>(new OnednnProduct(std::move(state)));
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    *why = fmt::format("oneDNN {} cannot do this product: {}", onednn_version(), e.message);
    return nullptr;
  }
}

std::size_t OnednnProduct::scratch_bytes() const {
  return state_->description.scratchpad_desc().get_size();
}

void OnednnProduct::run(int thread, const OnednnPointers& p) const {
  const OneThread one_thread;
  ThreadState& t = state_->of_thread(thread);
  t.a.set_data_handle(mutable_pointer(p.a));
  t.b.set_data_handle(mutable_pointer(p.b));
  t.c.set_data_handle(p.c);
  t.scratch.set_data_handle(p.scratch);
  std::array<dnnl_exec_arg_t, 5> arguments = {{{DNNL_ARG_SRC, t.a.get()},
                                               {DNNL_ARG_WEIGHTS, t.b.get()},
                                               {DNNL_ARG_DST, t.c.get()},
                                               {DNNL_ARG_SCRATCHPAD, t.scratch.get()}}};
  int count = 4;
  if (state_->shape.bias) {
    t.bias.set_data_handle(mutable_pointer(p.bias));
    arguments[4] = {DNNL_ARG_BIAS, t.bias.get()};
    count = 5;
  }
  const dnnl_status_t status =
      dnnl_primitive_execute(state_->primitive.get(), t.stream.get(), count, arguments.data());
  if (status != dnnl_success) fail(status, "cannot run a product");
}

}  // namespace lamina::cpu
