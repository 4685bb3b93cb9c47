#include "support/op_case_kernels.h"

#include <algorithm>

#include "ops/registry.h"
#include "support/reference_backend.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

std::vector<Doubles> doubles_of(const std::vector<Array>& arrays) {
  std::vector<Doubles> out;
  for (const Array& a : arrays) out.push_back(to_doubles(a));
  return out;
}

// One run of a single kernel, with its memory.
struct KernelRun {
  const CaseDevice& device;
  const KernelChoice& choice;
  const Built& built;
  std::vector<Array> inputs;
  std::vector<Array> outputs;

  KernelRun(const CaseDevice& d, const KernelChoice& k, const Built& b)
      : device(d), choice(k), built(b), inputs(b.inputs) {
    for (const Tensor& t : b.results) outputs.push_back(unwritten(t.type()));
  }

  // Output `over_output` is written over operand `over_input`; outputs in `left_out` get no memory.
  void run(int over_output = -1, int over_input = -1, bool leave_out = false) {
    std::vector<Array*> in;
    std::size_t next = 0;
    std::vector<int> place(built.operands.size(), -1);
    for (std::size_t i = 0; i < built.operands.size(); ++i) {
      if (built.operands[i]) place[i] = static_cast<int>(next++);
      in.push_back(place[i] < 0 ? nullptr : &inputs[static_cast<std::size_t>(place[i])]);
    }
    in.resize(built.node().inputs.size());  // the case may leave out trailing inputs
    std::vector<Array*> out;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      out.push_back(leave_out && i > 0 ? nullptr : &outputs[i]);
    if (over_output >= 0)
      out[static_cast<std::size_t>(over_output)] = in[static_cast<std::size_t>(over_input)];
    with_node_view(built.graph, built.node(), [&](const NodeView& view) {
      const std::unique_ptr<Kernel> kernel = choice.make(view, device.backend().context());
      device.run(*kernel, in, out);
    });
    if (over_output >= 0)
      outputs[static_cast<std::size_t>(over_output)] =
          inputs[static_cast<std::size_t>(place[static_cast<std::size_t>(over_input)])];
  }
};

KernelRun run_and_compare(const CaseDevice& device, const KernelChoice& choice, const Built& built,
                          const std::vector<Doubles>& want, const Allowed& allowed,
                          const std::string& what) {
  KernelRun out(device, choice, built);
  out.run();
  for (std::size_t i = 0; i < want.size(); ++i)
    expect_close(out.outputs[i], want[i], allowed(out.outputs[i].type.dtype),
                 fmt::format("{}, output {}", what, i));
  return out;
}

void expect_same_bits(const KernelRun& a, const KernelRun& b, std::size_t num_outputs,
                      const std::string& what) {
  for (std::size_t i = 0; i < num_outputs; ++i)
    EXPECT_EQ(a.outputs[i].bytes, b.outputs[i].bytes) << what << " changes output " << i;
}

void check_in_place(const CaseDevice& device, const KernelChoice& choice, const Built& built,
                    const KernelRun& plain, const std::string& what) {
  for (std::size_t o = 0; o < built.results.size(); ++o)
    for (std::size_t i = 0; i < built.operands.size(); ++i) {
      if (!built.operands[i] || !(choice.in_place >> std::min<std::size_t>(i, 31) & 1)) continue;
      if (built.operands[i].type() != built.results[o].type()) continue;
      KernelRun over(device, choice, built);
      over.run(static_cast<int>(o), static_cast<int>(i));
      expect_same_bits(over, plain, plain.outputs.size(),
                       fmt::format("{}: output {} over input {}", what, o, i));
    }
}

}  // namespace

std::vector<Doubles> meaning(const OpCases& list, const OpCase& c, DType dtype) {
  Built rounded;
  build(list, c, dtype, dtype, rounded);
  if (c.expect) {
    std::vector<Doubles> operands;
    std::size_t next = 0;
    for (const Tensor& t : rounded.operands)
      operands.push_back(t ? to_doubles(rounded.inputs[next++]) : Doubles{});
    return c.expect(operands);
  }
  Built wide;
  build(list, c, is_floating(dtype) ? DType::f64 : dtype, dtype, wide);
  add_outputs(wide.graph, wide.results);
  return doubles_of(run(wide.graph, wide.inputs, reference_backend()));
}

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-11;
    case DType::f32:
      return 4e-6;
    case DType::bf16:
      return 8e-3;
    case DType::f16:
      return 1e-3;
    default:
      return 0;
  }
}

Allowed allowed_errors(const OpCase& c, DType dtype) {
  return [&c, dtype](DType result) {
    if (result == DType::f32 && c.sums_rounded) result = dtype;
    return c.loosen * tolerance(result);
  };
}

void check_numbers(const CaseDevice& device, const KernelChoice& choice, const Built& built,
                   const std::vector<Doubles>& want, const Allowed& allowed,
                   const std::string& what) {
  device.begin_run(false);
  run_and_compare(device, choice, built, want, allowed, what);
}

void check_kernel(const CaseDevice& device, const KernelChoice& choice, const Built& built,
                  const std::vector<Doubles>& want, const Allowed& allowed,
                  const std::string& what) {
  device.begin_run(false);
  const KernelRun plain = run_and_compare(device, choice, built, want, allowed, what);
  check_in_place(device, choice, built, plain, what);
  if (built.results.size() > 1 && !choice.writes_all) {
    KernelRun partial(device, choice, built);
    partial.run(-1, -1, true);
    expect_same_bits(partial, plain, 1, what + ": leaving out the other outputs");
  }
  device.begin_run(true);
  KernelRun again(device, choice, built);
  again.run();
  expect_same_bits(again, plain, plain.outputs.size(), fmt::format("{}: {}", what, device.again()));
  device.begin_run(false);
}

}  // namespace lamina::testing
