#include "registry/kernel_call.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "registry/abi_ops.h"

namespace lamina::registry {
namespace {

lamina_buffer_t buffer_of(const Type& type) {
  lamina_buffer_t out{};
  out.dtype = abi::dtype_number(type.dtype);
  out.ndim = static_cast<std::uint32_t>(type.ndim());
  std::int64_t stride = 1;
  for (int d = type.ndim() - 1; d >= 0; --d) {
    out.dims[d] = type.dim(d);
    out.strides[d] = stride;
    stride *= type.dim(d);
  }
  return out;
}

struct TaskContext {
  const KernelSource* source;
  void (*task)(void*, std::uint64_t);
  void* context;
  std::atomic<bool> threw{false}, changed_rounding{false};
};

void run_task(void* context, std::uint64_t i) {
  auto& c = *static_cast<TaskContext*>(context);
  const PluginShortCall call(c.source->running);
  const FloatControl control;
  try {
    c.task(c.context, i);
  } catch (...) {
    c.threw = true;
  }
  if (control.restore()) c.changed_rounding = true;
}

constexpr std::uint64_t kMostTasks = std::numeric_limits<std::int32_t>::max();

struct KernelCalls {
  static void parallel_for(const lamina_kernel_call_t* call, std::uint64_t count,
                           void (*task)(void*, std::uint64_t), void* context) {
    auto& self = *const_cast<RunningCall*>(static_cast<const RunningCall*>(call));
    if (self.parallel == nullptr) {
      self.broken = "calls parallel_for, which is not available to GPU kernels";
      return;
    }
    if (count > kMostTasks || task == nullptr) {
      self.broken = fmt::format("requests {} tasks{}; expected 1 to 2^31 - 1", count,
                                task ? "" : " of a null function");
      return;
    }
    TaskContext c{self.source, task, context};
    self.parallel(count, run_task, &c);
    if (c.changed_rounding) self.broken = kChangedRounding;
    if (c.threw) self.broken = "threw an exception in a task; exceptions must not leave a plugin";
  }
  static void fail(const lamina_kernel_call_t* call, lamina_str_t message) {
    auto& self = *const_cast<RunningCall*>(static_cast<const RunningCall*>(call));
    try {
      if (self.message.empty()) self.message = abi::text(message, "its message");
    } catch (const abi::ContractError& unreadable) {
      self.message = unreadable.what();
    }
  }
};

constexpr lamina_kernel_api_t kApi = {.size = sizeof(lamina_kernel_api_t),
                                      ._pad0 = 0,
                                      .parallel_for = KernelCalls::parallel_for,
                                      .fail = KernelCalls::fail};

}  // namespace

KernelSource::KernelSource(const Fields& fields, const std::string& of, bool backward,
                           std::shared_ptr<const PluginIdentity> from)
    : dtypes(fields.dtypes),
      user(fields.user),
      prepare(fields.prepare),
      op(of),
      is_backward(backward),
      on_gpu(fields.on_gpu),
      reads_outputs((fields.flags & LAMINA_KERNEL_READS_OUTPUTS) != 0),
      plugin(std::move(from)),
      running(*plugin, "", place().substr(4)) {
  const std::string what =
      fmt::format("the {}{} kernel of custom op '{}'", is_backward ? "backward" : "forward",
                  on_gpu ? " GPU" : "", op);
  abi::check_flags(fields.flags, is_backward ? LAMINA_KERNEL_READS_OUTPUTS : 0, what);
  if (!fields.has_run) abi::refuse("{} has no run function", what);
  constexpr std::uint64_t kFloating = 1u << LAMINA_DTYPE_F32 | 1u << LAMINA_DTYPE_BF16 |
                                      1u << LAMINA_DTYPE_F16 | 1u << LAMINA_DTYPE_F64;
  if ((dtypes & kFloating) == 0)
    abi::refuse("{} supports no floating-point type (dtypes {:#x})", what, dtypes);
}

std::string KernelSource::place() const {
  return fmt::format("the {}{} kernel of op '{}'", is_backward ? "backward" : "forward",
                     on_gpu ? " GPU" : "", op);
}

CallBuffers::CallBuffers(const NodeView& n, const KernelSource& source)
    : op_(ops::custom_of(n.op())) {
  const auto attrs = n.attrs().first(op_.num_plugin_attrs);
  values_.assign(attrs.begin(), attrs.end());
  attrs_ = abi::value_views(values_);
  for (int i = 0; i < n.num_inputs(); ++i)
    operands_.push_back(n.has(i) ? buffer_of(n.type(i)) : lamina_buffer_t{});
  if (source.is_backward) {
    if (!source.reads_outputs)
      std::fill_n(operands_.begin() + std::ptrdiff_t(op_.first_output()), op_.num_outputs,
                  lamina_buffer_t{});
    int next = 0;
    for (std::size_t i = 0; i < op_.num_inputs; ++i) {
      const bool made = n.has(int(i)) && is_floating(n.type(int(i)).dtype);
      result_at_.push_back(made ? next : -1);
      results_.push_back(made ? buffer_of(n.out_type(next++)) : lamina_buffer_t{});
    }
  } else {
    for (int i = 0; i < n.num_outputs(); ++i) {
      result_at_.push_back(i);
      results_.push_back(buffer_of(n.out_type(i)));
    }
  }
}

void CallBuffers::set_data(std::span<const void* const> inputs, std::span<void* const> outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (operands_[i].dtype != 0) operands_[i].data = const_cast<void*>(inputs[i]);
  for (std::size_t i = 0; i < results_.size(); ++i)
    if (result_at_[i] >= 0) results_[i].data = outputs[std::size_t(result_at_[i])];
}

void CallBuffers::describe(lamina_kernel_call_t& call, bool is_backward) const {
  const std::span operands(operands_), results(results_);
  const auto span = [](std::span<const lamina_buffer_t> of) {
    return lamina_span_t{of.data(), static_cast<std::uint32_t>(of.size()), sizeof of[0]};
  };
  const auto one = [&](std::size_t i) { return operands[i].dtype ? &operands[i] : nullptr; };
  call.attrs = {attrs_.data(), static_cast<std::uint32_t>(attrs_.size()), sizeof attrs_[0]};
  call.inputs = span(operands.first(op_.num_inputs));
  call.positions = one(op_.positions());
  call.segments = one(op_.segments());
  if (is_backward) {
    call.outputs = span(operands.subspan(op_.first_output(), op_.num_outputs));
    call.output_gradients = span(operands.subspan(op_.first_cotangent(), op_.num_outputs));
    call.input_gradients = span(results);
    return;
  }
  call.start = one(op_.start());
  call.count = one(op_.count());
  call.outputs = span(results.first(op_.num_outputs));
  call.states_before = span(operands.subspan(op_.first_state()));
  call.states_after = span(results.subspan(op_.num_outputs));
}

void fail(const KernelSource& source, const std::string& what, const std::string& place) {
  std::vector<std::string> notes;
  if (!place.empty()) notes.push_back(place);
  notes.push_back(fmt::format("plugin '{}' {}", source.plugin->id, source.plugin->version));
  notes.push_back(
      "LAMINA_PLUGIN_KERNELS=0 computes the op by its lowering; `lamina plugin check --only GRD-3` "
      "compares the two");
  throw PluginError({source.place(), what, std::move(notes)});
}

namespace {

// Returns the layer and line of the node, for messages; "" if unknown.
std::string place_of(const NodeView& n) { return n.origin() ? to_string(*n.origin()) : ""; }

void start(RunningCall& call, const KernelSource& source, const CallBuffers& buffers) {
  static_cast<lamina_kernel_call_t&>(call).size = sizeof(lamina_kernel_call_t);
  call.api = &kApi;
  call.source = &source;
  buffers.describe(call, source.is_backward);
}

// Returns whether the kernel supports the shapes, and gets the size of its workspace.
bool is_prepared(const KernelSource& source, const NodeView& n, std::uint64_t& bytes) {
  if (source.prepare == nullptr) return true;
  const CallBuffers buffers(n, source);
  RunningCall call{};
  start(call, source, buffers);
  if (!source.on_gpu)
    call.parallel = [](std::uint64_t count, void (*task)(void*, std::uint64_t), void* context) {
      for (std::uint64_t i = 0; i < count; ++i) task(context, i);
    };
  lamina_status_t status = LAMINA_OK;
  call_plugin(call, place_of(n), status,
              [&] { return source.prepare(source.user, &call, &bytes); });
  if (status == LAMINA_ERROR_UNSUPPORTED) return false;
  if (status != LAMINA_OK)
    fail(source,
         fmt::format("could not be prepared: status {} ({}){}", status, abi::status_name(status),
                     call.message.empty() ? "" : ": " + call.message),
         place_of(n));
  constexpr std::uint64_t kMost = std::uint64_t{1} << 45;
  if (bytes > kMost)
    fail(source, fmt::format("requests {} bytes of workspace; the maximum is 2^45", bytes),
         place_of(n));
  return true;
}

bool has_empty_results(const NodeView& n) {
  for (int i = 0; i < n.num_outputs(); ++i)
    if (n.out_type(i).num_elements() > 0) return false;
  return true;
}

}  // namespace

std::string refusal_of(const KernelSource& source, const NodeView& n) {
  const char* wanted = std::getenv("LAMINA_PLUGIN_KERNELS");
  if (wanted && std::string_view(wanted) == "0") return "LAMINA_PLUGIN_KERNELS is 0";
  std::string out;
  const auto look = [&](const Type& type) {
    if (out.empty() && is_floating(type.dtype) &&
        !(source.dtypes >> abi::dtype_number(type.dtype) & 1))
      out = fmt::format("the plugin's kernel does not support {}", to_string(type));
  };
  for (int i = 0; i < n.num_inputs(); ++i)
    if (n.has(i)) look(n.type(i));
  for (int i = 0; i < n.num_outputs(); ++i) look(n.out_type(i));
  std::uint64_t bytes = 0;
  if (out.empty() && !is_prepared(source, n, bytes))
    out = "the plugin's kernel does not support these shapes";
  return out;
}

PreparedKernel::PreparedKernel(const KernelSource& source, const NodeView& n)
    : source_(source), buffers_(n, source), place_(place_of(n)), is_empty_(has_empty_results(n)) {
  is_prepared(source, n, workspace_bytes_);
}

void PreparedKernel::set_data(RunningCall& call, std::span<const void* const> inputs,
                              std::span<void* const> outputs, void* workspace) {
  buffers_.set_data(inputs, outputs);
  start(call, source_, buffers_);
  call.workspace = workspace;
  call.workspace_bytes = workspace_bytes_;
}

void PreparedKernel::check_end(const RunningCall& call, lamina_status_t status) const {
  if (call.thrown) std::rethrow_exception(call.thrown);
  if (status == LAMINA_OK) return;
  if (status == LAMINA_ERROR_MEMORY) throw std::bad_alloc();
  fail(source_,
       fmt::format("failed with status {} ({}){}", status, abi::status_name(status),
                   call.message.empty() ? " and no message" : ": " + call.message),
       place_);
}

}  // namespace lamina::registry
