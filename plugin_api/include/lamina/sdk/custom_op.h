// Custom ops (ext/custom_ops.h): a name for a composition of ordinary ops, with optional kernels.
//
//   constexpr CustomOp kSquash{.name = "example.squash", .inputs = "x", .attrs = "at:f=1",
//                              .doc = "x / (|x| + at)",
//                              .lower = [](const OpUse& use) -> Tensors {
//                                Tensor x = use.in(0);
//                                return {x / (abs(x) + use.attrs.number("at"))};
//                              },
//                              .forward = {.run = squash}, .backward = {.run = squash_back}};
//   Tensor y = kSquash({x}, {{"at", 2.0}});
//   LAMINA_PLUGIN("org.example.squash", "1.0.0", kModel, kSquash)
#pragma once

#include <string>
#include <vector>

#include "lamina/sdk/gpu_call.h"
#include "lamina/sdk/kernel_call.h"
#include "lamina/sdk/step.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

struct CustomOp;

// The plugin's ops in the order of their numbers; set by LAMINA_PLUGIN. A pointer, so that loading
// and unloading run no constructors.
inline const std::vector<const CustomOp*>* loading_ops = nullptr;

// One use of an op while its lowering is built.
class OpUse {
 public:
  OpUse(std::string_view row, lamina_build_t* build, std::vector<Tensor> inputs,
        lamina_span_t values)
      : attrs(row, values), build_(build), inputs_(std::move(inputs)) {}

  const OpAttrs attrs;
  // Returns input i of the row; empty if absent.
  Tensor in(std::size_t i) const { return inputs_.at(i); }
  // For ops that mix tokens: step().linear_scan(a, b). It has no positions: make them an input.
  Step step() const { return Step::of_op(Scope(build_, 0)); }
  Scope scope() const { return Scope(build_, 0); }

 private:
  lamina_build_t* build_;
  std::vector<Tensor> inputs_;
};

constexpr std::uint64_t kFloat32 = std::uint64_t{1} << LAMINA_DTYPE_F32;
constexpr std::uint64_t kBfloat16 = std::uint64_t{1} << LAMINA_DTYPE_BF16;

struct CustomKernel {
  void (*run)(const KernelCall& call) = nullptr;  // null: no kernel
  // Returns the number of floats that run() needs as workspace; null: none.
  std::int64_t (*workspace)(const KernelCall& call) = nullptr;
  std::uint64_t dtypes = kFloat32 | kBfloat16;
  bool reads_outputs = false;  // backward kernels: read the outputs of the forward pass
};

// Launches of kernels that lamina_add_plugin(... GPU_KERNELS file.cu) compiles. A draft.
struct GpuKernel {
  // Depends on shapes, attributes and addresses only: recorded launches may be repeated without it.
  void (*run)(const GpuCall& call) = nullptr;  // null: no kernel
  // As in CustomKernel.
  std::int64_t (*workspace)(const KernelCall& call) = nullptr;
  std::uint64_t dtypes = kFloat32 | kBfloat16;
  bool reads_outputs = false;
};

// An attribute's name and value.
struct OpAttr {
  std::string_view name;
  lamina_value_t value;
  OpAttr(std::string_view n, double v) : name(n), value(to_value(v)) {}
  OpAttr(std::string_view n, std::int64_t v) : name(n), value(to_value(v)) {}
  OpAttr(std::string_view n, int v) : name(n), value(to_value(std::int64_t{v})) {}
  OpAttr(std::string_view n, bool v) : name(n), value(to_value(std::int64_t{v})) {}
  OpAttr(std::string_view n, std::string_view v) : name(n), value(to_value(v)) {}
  OpAttr(std::string_view n, const char* v) : name(n), value(to_value(std::string_view(v))) {}
  OpAttr(std::string_view n, std::span<const std::int64_t> v) : name(n), value(to_value(v)) {}
  OpAttr(std::string_view n, std::span<const double> v) : name(n), value(to_value(v)) {}
};

// A constant with static storage, listed in LAMINA_PLUGIN.
struct CustomOp {
  std::string_view name = {};  // "<family or vendor>.<op>"
  // As in ops.def: "x gate?", "y", "beta:f=1 kind:s".
  std::string_view inputs = "x", outputs = "y", attrs = {};
  std::string_view doc = {};
  // Defines the op: returns one tensor per output. [trace]
  std::vector<Tensor> (*lower)(const OpUse& use) = nullptr;
  CustomKernel forward = {}, backward = {};
  GpuKernel gpu_forward = {}, gpu_backward = {};

  constexpr bool has_gpu_kernels() const { return gpu_forward.run || gpu_backward.run; }

  // Adds the op and returns its first output. Give a scope `s` to separate the states of two uses.
  Tensor operator()(std::initializer_list<Tensor> in, std::initializer_list<OpAttr> with = {},
                    At at = At::current()) const {
    return all(in, with, at).front();
  }
  Tensor operator()(const Scope& s, std::initializer_list<Tensor> in,
                    std::initializer_list<OpAttr> with = {}, At at = At::current()) const {
    const Scope::Open open(s);
    return all(in, with, at).front();
  }
  std::vector<Tensor> all(std::initializer_list<Tensor> in, std::initializer_list<OpAttr> with = {},
                          At at = At::current()) const;
};

// ---------------------------------------------------------------------------------------------

inline std::vector<Tensor> CustomOp::all(std::initializer_list<Tensor> in,
                                         std::initializer_list<OpAttr> with, At at) const {
  lamina_build_t* const build = in.begin()->build;
  const std::vector<Tensor> tensors(in);
  std::vector<lamina_attr_t> list(count_words(attrs));
  for (const OpAttr& attr : with) {
    const AttrRow row = find_attr(attrs, attr.name);
    if (row.key == 0)
      raise(Error(
          LAMINA_ERROR_ARGUMENT,
          "op '" + std::string(name) + "' has no attribute '" + std::string(attr.name) + "'", at));
    list[row.key - 1] = {row.key, 0, attr.value};
  }
  std::erase_if(list, [](const lamina_attr_t& attr) { return attr.key == 0; });

  std::size_t number = 0;
  const std::size_t count = loading_ops ? loading_ops->size() : 0;
  while (number < count && (*loading_ops)[number] != this) ++number;
  if (number == count)
    raise(Error(LAMINA_ERROR_INTERNAL,
                "op '" + std::string(name) + "' is not listed in LAMINA_PLUGIN", at));
  extension<lamina_custom_ops_api_t>(LAMINA_CUSTOM_OPS_ID, at);
  std::vector<lamina_tensor_t> handles, results(count_words(outputs));
  for (Tensor t : tensors) handles.push_back(t.handle);
  const lamina_where_t where = to_where(at);
  lamina_emit_t emit{};
  emit.size = sizeof emit;
  emit.op = LAMINA_CUSTOM_OPS + static_cast<std::uint32_t>(number);
  emit.inputs = to_span(handles);
  emit.attrs = to_span(list);
  emit.outputs = results.data();
  emit.n_outputs = static_cast<std::uint32_t>(results.size());
  check(build->api->emit(build, &emit, &where));
  std::vector<Tensor> out;
  for (lamina_tensor_t handle : results) out.push_back({build, handle});
  return out;
}

// The C tables of a CustomOp.
class OpTable {
 public:
  explicit OpTable(const CustomOp& op) : op_(op) {
    forward_ =
        kernel<lamina_kernel_t>(op.forward, &run<&CustomOp::forward>, &prepare<&CustomOp::forward>);
    backward_ = kernel<lamina_kernel_t>(op.backward, &run<&CustomOp::backward>,
                                        &prepare<&CustomOp::backward>);
    gpu_forward_ = kernel<lamina_gpu_kernel_t>(op.gpu_forward, &launch<&CustomOp::gpu_forward>,
                                               &prepare<&CustomOp::gpu_forward>);
    gpu_backward_ = kernel<lamina_gpu_kernel_t>(op.gpu_backward, &launch<&CustomOp::gpu_backward>,
                                                &prepare<&CustomOp::gpu_backward>);
  }
  OpTable(const OpTable&) = delete;
  OpTable& operator=(const OpTable&) = delete;

  lamina_custom_op_t op() const {
    lamina_custom_op_t out{};
    out.size = sizeof out;
    out.name = to_str(op_.name);
    out.doc = to_str(op_.doc);
    out.inputs = to_str(op_.inputs);
    out.outputs = to_str(op_.outputs);
    out.attrs = to_str(op_.attrs);
    out.user = const_cast<CustomOp*>(&op_);
    out.lower = &lower;
    if (op_.forward.run) out.forward = &forward_;
    if (op_.backward.run) out.backward = &backward_;
    return out;
  }

  // The kernels for GPUs of the op with that number.
  lamina_gpu_custom_op_t gpu_op(std::uint32_t number) const {
    lamina_gpu_custom_op_t out{};
    out.size = sizeof out;
    out.op = number;
    if (op_.gpu_forward.run) out.forward = &gpu_forward_;
    if (op_.gpu_backward.run) out.backward = &gpu_backward_;
    return out;
  }

 private:
  template <class Table, class Kernel>
  Table kernel(const Kernel& of, decltype(Table::run) run_of,
               decltype(Table::prepare) prepare_of) const {
    Table out{};
    out.size = sizeof out;
    out.flags = of.reads_outputs ? LAMINA_KERNEL_READS_OUTPUTS : 0u;
    out.dtypes = of.dtypes;
    out.user = const_cast<CustomOp*>(&op_);
    if (of.workspace) out.prepare = prepare_of;
    out.run = run_of;
    return out;
  }

  static lamina_status_t lower(void* user, lamina_build_t* build,
                               const lamina_lowering_t* use) noexcept {
    const auto& op = *static_cast<const CustomOp*>(user);
    return guarded(build, [&] {
      std::vector<Tensor> inputs;
      const auto* handles = static_cast<const lamina_tensor_t*>(use->inputs.ptr);
      for (std::uint32_t i = 0; i < use->inputs.count; ++i) inputs.push_back({build, handles[i]});
      const std::vector<Tensor> out = op.lower(OpUse(op.attrs, build, inputs, use->attrs));
      if (out.size() != use->n_outputs)
        raise(Error(LAMINA_ERROR_ARGUMENT, "the lowering of op '" + std::string(op.name) +
                                               "' returns " + std::to_string(out.size()) +
                                               " tensors; its outputs are '" +
                                               std::string(op.outputs) + "'"));
      for (std::size_t i = 0; i < out.size(); ++i) use->outputs[i] = out[i].handle;
    });
  }

  // Turns exceptions of a kernel into a status and a message.
  template <class Body>
  static lamina_status_t kernel_guarded(const lamina_kernel_call_t* call, Body&& body) noexcept {
    return contained(std::forward<Body>(body),
                     [&](lamina_status_t status, std::string_view text, const lamina_where_t*) {
                       if (status != LAMINA_ERROR_MEMORY) call->api->fail(call, to_str(text));
                     });
  }
  template <CustomKernel CustomOp::*which>
  static lamina_status_t run(void* user, const lamina_kernel_call_t* call) noexcept {
    const auto& op = *static_cast<const CustomOp*>(user);
    return kernel_guarded(call, [&] { (op.*which).run(KernelCall(op.attrs, call)); });
  }
  template <GpuKernel CustomOp::*which>
  static lamina_status_t launch(void* user, const lamina_kernel_call_t* call,
                                const lamina_gpu_api_t* gpu) noexcept {
    const auto& op = *static_cast<const CustomOp*>(user);
    return kernel_guarded(call, [&] { (op.*which).run(GpuCall(op.attrs, call, gpu)); });
  }
  template <auto which>
  static lamina_status_t prepare(void* user, const lamina_kernel_call_t* call,
                                 std::uint64_t* bytes) noexcept {
    const auto& op = *static_cast<const CustomOp*>(user);
    return kernel_guarded(call, [&] {
      const std::int64_t floats = (op.*which).workspace(KernelCall(op.attrs, call));
      *bytes = static_cast<std::uint64_t>(floats) * sizeof(float);
    });
  }

  const CustomOp& op_;
  lamina_kernel_t forward_, backward_;
  lamina_gpu_kernel_t gpu_forward_, gpu_backward_;
};

}  // namespace lamina::sdk
#pragma GCC visibility pop
