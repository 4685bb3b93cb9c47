// LoRA and DoRA (roles/adapter.h): adds low-rank products to products with adapted matrices.
#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "decoder/rewrite/rewriter.h"
#include "decoder/rewrite/rewrites.h"
#include "decoder/stack/parameter.h"
#include "ops/operands.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

bool wanted(const TracePhase& phase) { return phase.adapter != nullptr; }

class Adapters {
 public:
  explicit Adapters(Rewriter& r) : r_(r), adapter_(*r.context().phase.adapter) {
    for (const BlockGraph::Param& param : r.recording().block.params) {
      const bool is_plugins = param.desc.beside.empty();
      const AdapterTarget* target = adapter_.find(r.context().use.block, param.desc.name);
      if (!target || !is_plugins || r.recording().left_out.contains(param.desc.name)) continue;
      const auto input = static_cast<std::size_t>(param.input);
      matrices_[r.from().inputs()[input].value] = {.desc = param.desc, .target = target};
    }
    for (const Node& node : r.from().nodes()) check_reads(node);
  }

  bool change(NodeId id) {
    const Node& node = r_.from().node(id);
    if (!is_product(node)) return false;
    const auto matrix = matrices_.find(node.inputs[operand::linear::kW]);
    if (matrix == matrices_.end()) return false;
    const std::vector<Tensor> inputs = r_.operands(id);
    r_.set(node.outputs[0], node.op->def->facts.product == Product::rows
                                ? adapted(matrix->second, node, inputs)
                                : adapted_experts(matrix->second, node, inputs));
    return true;
  }

 private:
  // A matrix of the plugin, with the adapter's matrices after the first product that reads it.
  struct Matrix {
    registry::ParamDesc desc;
    const AdapterTarget* target;
    Tensor down = {}, up = {}, magnitude = {};
  };

  static bool is_product(const Node& node) {
    const Product product = node.op->def->facts.product;
    return product == Product::rows || product == Product::grouped_rows;
  }

  // Refuses adapters of a matrix that another op reads. If the targets are all matrices, it has
  // none, and neither have the others of its module.
  void check_reads(const Node& node) {
    static_assert(int{operand::grouped_linear::kW} == operand::linear::kW);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto matrix = matrices_.find(node.inputs[i]);
      if (matrix == matrices_.end() || (is_product(node) && i == operand::linear::kW)) continue;
      if (!adapter_.all)
        refuse_option("lora.target_modules",
                      fmt::format("'{}' is read by the op {}; an adapter is of matrices that "
                                  "`linear` alone reads",
                                  matrix->second.desc.name, node.op->name),
                      "name the others");
      const std::string shared = matrix->second.target->down_of;
      matrices_.erase(matrix);
      if (!shared.empty())
        std::erase_if(matrices_,
                      [&](const auto& entry) { return entry.second.target->down_of == shared; });
    }
  }

  registry::ParamDesc param(const Matrix& matrix, std::string_view part) const {
    registry::ParamDesc out{.name = adapter_name(matrix.desc.name, part),
                            .shape = matrix.desc.shape,
                            .axes = matrix.desc.axes};
    if (part == kAdapterMagnitude) {  // weights::start_magnitudes() has its values
      out.shape = {out.shape[0]};
      out.axes.pop_back();
      return out;
    }
    const int dim = out.shape.ndim() - (part == kAdapterDown ? 2 : 1);
    // Starts as in PEFT, so that the added product is 0.
    const double bound = 1 / std::sqrt(static_cast<double>(out.shape[-1]));
    if (part == kAdapterDown) {
      if (!matrix.target->down_of.empty())
        out.name = adapter_name(matrix.target->down_of, kAdapterDown);
      out.init = {registry::InitSpec::Kind::uniform, -bound, bound};
    }
    out.shape[dim] = adapter_.rank;
    out.axes[static_cast<std::size_t>(dim)] = intern_axis("lora_rank");
    return out;
  }

  void add_params(Matrix& matrix) {
    if (matrix.up) return;
    const std::string& shared = matrix.target->down_of;
    const auto known = shared.empty() ? downs_.end() : downs_.find(shared);
    matrix.down = known == downs_.end() ? r_.add_param(param(matrix, kAdapterDown)) : known->second;
    if (!shared.empty()) downs_.try_emplace(shared, matrix.down);
    matrix.up = r_.add_param(param(matrix, kAdapterUp));
    if (adapter_.dora) matrix.magnitude = r_.add_param(param(matrix, kAdapterMagnitude));
  }

  Tensor input(Tensor x) {
    const double rate = adapter_.dropout;
    return rate == 0 || !r_.context().phase.training ? x : r_.dropout(x, rate);
  }

  // Offsets give the expert of each row of x.
  Tensor adapted_experts(Matrix& matrix, const Node& node, const std::vector<Tensor>& inputs) {
    namespace in = operand::grouped_linear;
    if (adapter_.dora)
      refuse_option("lora.use_dora",
                    fmt::format("'{}' is of experts, whose adapters have no magnitudes here",
                                matrix.desc.name),
                    "remove it, or name other matrices in lora.target_modules");
    add_params(matrix);
    const Tensor y = r_.graph().add_node_like(node, inputs).front();
    const Tensor offsets = inputs[in::kOffsets];
    const Tensor low = ops::grouped_linear(input(inputs[in::kX]), matrix.down, offsets);
    return y + ops::scale(ops::grouped_linear(low, matrix.up, offsets), adapter_.scale);
  }

  Tensor adapted(Matrix& matrix, const Node& node, const std::vector<Tensor>& inputs) {
    namespace in = operand::linear;
    add_params(matrix);
    const Tensor y = r_.graph().add_node_like(node, inputs).front();
    const Tensor x = input(inputs[in::kX]);
    const Tensor low = ops::linear(x, matrix.down);
    const Tensor added = ops::scale(ops::linear(low, matrix.up), adapter_.scale);
    if (!matrix.magnitude) return y + added;
    Tensor product = y;  // of x and the matrix
    if (x.id != inputs[in::kX].id)
      product = ops::linear(x, inputs[in::kW]);
    else if (inputs[in::kBias])
      product = y - ops::cast(inputs[in::kBias], y.dtype());
    const DType wide = sum_dtype(y.dtype());
    const Tensor length =
        ops::adapted_lengths(inputs[in::kW], matrix.up, matrix.down, {.scale = adapter_.scale});
    const Tensor ratio = ratio_of(ops::cast(matrix.magnitude, wide), ops::stop_gradient(length));
    const Tensor changed =
        ops::cast(product, wide) * ops::shift(ratio, -1) + ops::cast(added, wide) * ratio;
    return y + ops::cast(changed, y.dtype());
  }

  // A row of zeros has no length to divide by. Any ratio gives zeros; with 1, its `b` learns.
  static Tensor ratio_of(Tensor magnitude, Tensor length) {
    const Tensor one = ops::number_like(length, 1);
    const Tensor is_zero = ops::equal(length, ops::number_like(length, 0));
    return ops::select(is_zero, one, magnitude / ops::select(is_zero, one, length));
  }

  Rewriter& r_;
  const Adapter& adapter_;
  std::map<ValueId, Matrix> matrices_;   // by values of the old graph
  std::map<std::string, Tensor> downs_;  // by AdapterTarget::down_of
};

void apply(Recording& recording, const BlockContext& context) {
  if (context.use.kind != BlockUse::Kind::layer) return;
  Rewriter r(recording, context);
  Adapters adapters(r);
  r.run([&](NodeId id) { return adapters.change(id); });
}

}  // namespace

constinit const Rewrite kAdapter = {"adapter", wanted, apply};

}  // namespace lamina::decoder
