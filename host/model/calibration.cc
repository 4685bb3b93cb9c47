#include "model/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "core/error.h"
#include "graph/op.h"
#include "ops/operands.h"
#include "ops/tensor.h"
#include "program/bound_program.h"
#include "program/compile.h"
#include "program/rows.h"
#include "runtime/host_access.h"

namespace lamina::model {
namespace {

using weights::SymmetricSums;

constexpr std::int64_t kBatchRows = 4;  // of the text, computed together
// Inputs that are multiplied together: of many, or of the few that an expert may have.
constexpr std::int64_t kManyInputs = 2048, kFewInputs = 256;

// Adds x^T x of a fixed number of rows x to sums.
class MomentProduct {
 public:
  MomentProduct(std::int64_t width, std::int64_t rows, DType dtype, const Backend& backend)
      : rows_(rows),
        x_type_({dtype, {rows, width}, {}}),
        program_(program::compile(graph(x_type_, SymmetricSums(width)), backend)),
        arena_(backend.allocate(program_->arena_bytes())) {}

  // Adds `count` rows, with zeros up to the number of the constructor.
  void add(const std::byte* x, std::int64_t count, SymmetricSums& sums) {
    if (count < rows_) {
      const std::int64_t bytes = x_type_.bytes() / rows_ * count;
      padded_.assign(static_cast<std::size_t>(x_type_.bytes()), std::byte{0});
      std::memcpy(padded_.data(), x, static_cast<std::size_t>(bytes));
      x = padded_.data();
    }
    std::vector<ConstTensorRef> inputs = {host_tensor(x, x_type_)};
    std::vector<TensorRef> outputs;
    for (std::int64_t b = 0; b < sums.num_blocks(); ++b)
      outputs.push_back(host_tensor(sums.block(b), block_type(sums, b)));
    inputs.insert(inputs.end(), outputs.begin(), outputs.end());
    program_->run(inputs, outputs, *arena_);
  }

 private:
  static Type block_type(const SymmetricSums& sums, std::int64_t b) {
    return {DType::f32, {sums.block_rows(b), sums.block_columns(b)}, {}};
  }

  static Graph graph(const Type& x_type, const SymmetricSums& sums) {
    Graph graph;
    Tensor x = graph.add_input("x", x_type);
    std::vector<Tensor> before;
    for (std::int64_t b = 0; b < sums.num_blocks(); ++b)
      before.push_back(graph.add_input(fmt::format("block {}", b), block_type(sums, b)));
    for (std::int64_t b = 0; b < sums.num_blocks(); ++b) {
      const std::int64_t first = b * SymmetricSums::kBlockRows;
      Tensor rows = ops::slice(x, 1, first, sums.block_rows(b));
      Tensor columns = ops::slice(x, 1, first, sums.block_columns(b));
      graph.add_output(
          fmt::format("block {}", b),
          before[static_cast<std::size_t>(b)] + ops::matmul(rows, columns, true, false, DType::f32),
          static_cast<int>(b) + 1);
    }
    return graph;
  }

  std::int64_t rows_;
  Type x_type_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Buffer> arena_;
  std::vector<std::byte> padded_;
};

// Adds up x^T x of any number of rows x.
class MomentSum {
 public:
  MomentSum(std::int64_t width, DType dtype, const Backend& backend)
      : row_bytes_(width * size_bytes(dtype)),
        many_(width, kManyInputs, dtype, backend),
        few_(width, kFewInputs, dtype, backend) {}

  void add(const std::byte* x, std::int64_t count, SymmetricSums& sums) {
    while (count > 0) {
      const bool are_many = count > kManyInputs / 2;
      const std::int64_t n = std::min(count, are_many ? kManyInputs : kFewInputs);
      (are_many ? many_ : few_).add(x, n, sums);
      x += n * row_bytes_;
      count -= n;
    }
  }

 private:
  std::int64_t row_bytes_;
  MomentProduct many_, few_;
};

// Sees the operands of every product with a wanted matrix, and adds up the moments of its inputs.
class InputWatcher final : public Watcher {
 public:
  InputWatcher(std::span<const ConstTensorRef> weights, std::span<const int> parameters,
               std::int64_t most_bytes, const Backend& backend)
      : backend_(backend), most_bytes_(most_bytes) {
    for (const int p : parameters)
      wanted_.emplace(weights[static_cast<std::size_t>(p)].address(), p);
  }

  void enter(const Graph&, NodeId, std::int64_t) override {}
  void leave() override {}
  void ran(const Graph&, NodeId, std::span<const TensorRef>) override {}
  // The inputs are the first operand of a product.
  void starts(const Graph& graph, NodeId id, std::span<const ConstTensorRef> operands) override {
    if (operands.size() < 2 || !operands[0] || !is_floating(operands[0].type().dtype)) return;
    std::vector<int> readers;
    for (const ConstTensorRef& operand : operands.subspan(1))
      if (const auto found = wanted_.find(operand.address());
          operand && found != wanted_.end() && reads_rows(graph.node(id), operands[0], operand))
        readers.push_back(found->second);
    if (readers.empty()) return;
    const Type& weight = operands[1].type();
    const std::int64_t groups = weight.ndim() == 2 ? 1 : weight.dim(0);
    if (!reserve(readers, groups, weight.dim(-1))) return;
    if (weight.ndim() == 2) return add(operands[0], 0, num_rows(operands[0]), readers, 0);
    const std::span<const std::int32_t> begins =
        host_view<std::int32_t>(operands[operand::grouped_linear::kOffsets]);
    for (std::int64_t e = 0; e < groups; ++e) {
      const auto at = static_cast<std::size_t>(e);
      add(operands[0], begins[at], begins[at + 1] - begins[at], readers, e);
    }
  }

  CollectedMoments take() {
    CollectedMoments out{.is_complete = is_complete_};
    for (auto& [key, moments] : moments_) out.inputs.push_back(std::move(moments));
    return out;
  }

 private:
  // The first reader and the expert: products with one input are one node, or see the same values.
  using Key = std::pair<int, std::int64_t>;

  static std::int64_t num_rows(const ConstTensorRef& x) {
    return x.type().num_elements() / x.type().dim(-1);
  }

  // True for products with matrices that may be in blocks. One of two tensors may read columns.
  static bool reads_rows(const Node& node, const ConstTensorRef& x, const ConstTensorRef& weight) {
    const OpDef& def = *node.op->def;
    return def.takes_stored && def.facts.product != Product::tensors &&
           x.type().dim(-1) == weight.type().dim(-1);
  }

  // Makes room for the moments of a product when it is seen first. Returns false if there is none.
  bool reserve(const std::vector<int>& readers, std::int64_t groups, std::int64_t width) {
    if (moments_.contains({readers.front(), 0})) return true;
    const std::int64_t more = 4 * groups * SymmetricSums::num_values(width);
    if (!moments_.empty() && bytes_ + more > most_bytes_) {
      is_complete_ = false;
      return false;
    }
    bytes_ += more;
    for (std::int64_t group = 0; group < groups; ++group) {
      InputMoments& out = moments_[{readers.front(), group}];
      out.sums = SymmetricSums(width);
      for (const int p : readers) out.readers.push_back({p, group});
    }
    return true;
  }

  void add(const ConstTensorRef& x, std::int64_t first, std::int64_t count,
           const std::vector<int>& readers, std::int64_t group) {
    const std::int64_t width = x.type().dim(-1);
    InputMoments& out = moments_.at({readers.front(), group});
    if (count == 0) return;
    std::unique_ptr<MomentSum>& sum = sums_[{width, x.type().dtype}];
    if (!sum) sum = std::make_unique<MomentSum>(width, x.type().dtype, backend_);
    const auto bytes = host_view<std::byte>(x);
    sum->add(bytes.data() + first * width * size_bytes(x.type().dtype), count, out.sums);
    out.num_inputs += count;
  }

  const Backend& backend_;
  std::int64_t most_bytes_, bytes_ = 0;
  bool is_complete_ = true;
  std::map<Address, int> wanted_;
  std::map<std::pair<std::int64_t, DType>, std::unique_ptr<MomentSum>> sums_;
  std::map<Key, InputMoments> moments_;
};

decoder::ModelGraph graph_of_layers(const decoder::Model& model, const decoder::GraphShape& shape) {
  return model.forward_graph(shape, {.normed = true, .logits = false});
}

}  // namespace

std::vector<bool> read_by_layers(const decoder::Model& model) {
  std::vector<bool> out(model.parameters().all().size());
  for (const decoder::InputRole& input : graph_of_layers(model, {}).inputs) {
    if (input.role != decoder::Input::parameter) continue;
    for (const int p : input.members)
      out[static_cast<std::size_t>(p)] =
          model.parameters()[p].desc.role != registry::Role::embedding;
  }
  return out;
}

CollectedMoments collect_moments(const decoder::Model& model,
                                 std::span<const ConstTensorRef> weights,
                                 const CalibrationText& text, std::span<const int> parameters,
                                 const CalibrationOptions& options, const Backend& backend) {
  const std::int64_t rows = text.num_rows();
  LAMINA_ASSERT(rows > 0 && backend.reaches(MemoryKind::host));
  std::int64_t together = kBatchRows;
  while (rows % together != 0) --together;  // every row counts
  program::BoundProgram layers(
      graph_of_layers(model, {together, text.tokens_per_row, options.dtype}), backend);
  layers.bind_parameters(weights);
  std::vector<std::byte> normed(static_cast<std::size_t>(
      together * text.tokens_per_row * model.hidden_size() * size_bytes(options.dtype)));
  layers.bind(decoder::Output::normed, normed.data());
  const auto arena = backend.allocate(layers.arena_bytes());
  InputWatcher watcher(weights, parameters, options.most_bytes, backend);
  layers.program().watch(&watcher);
  for (std::int64_t row = 0; row < rows; row += together) {
    if (options.progress) options.progress(row, rows);
    const auto first = text.ids.begin() + row * text.tokens_per_row;
    const std::vector<std::int32_t> ids(first, first + together * text.tokens_per_row);
    const program::Rows batch = program::rows_of(ids, ids, together, text.tokens_per_row);
    batch.microbatch().bind(layers);
    layers.run(*arena);
  }
  if (options.progress) options.progress(rows, rows);
  return watcher.take();
}

}  // namespace lamina::model
