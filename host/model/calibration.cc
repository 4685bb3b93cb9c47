#include "model/calibration.h"

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

constexpr std::int64_t kBatchRows = 4;    // of the text, computed together
constexpr std::int64_t kInputRows = 256;  // multiplied together

// Adds up x^T x of rows x, some at a time.
class MomentSum {
 public:
  MomentSum(std::int64_t width, DType dtype, const Backend& backend)
      : width_(width),
        row_bytes_(width * size_bytes(dtype)),
        program_(program::compile(product(width, dtype), backend)),
        arena_(backend.allocate(program_->arena_bytes())),
        rows_(static_cast<std::size_t>(kInputRows * row_bytes_)),
        products_(static_cast<std::size_t>(width * width)),
        x_type_({dtype, {kInputRows, width}, {}}) {}

  void add(const std::byte* x, std::int64_t count, std::vector<float>& sums) {
    for (std::int64_t first = 0; first < count; first += kInputRows) {
      const std::int64_t n = std::min(kInputRows, count - first);
      const auto bytes = static_cast<std::size_t>(n * row_bytes_);
      std::memcpy(rows_.data(), x + first * row_bytes_, bytes);
      std::fill(rows_.begin() + static_cast<std::ptrdiff_t>(bytes), rows_.end(), std::byte{0});
      const ConstTensorRef input =
          host_tensor(static_cast<const std::byte*>(rows_.data()), x_type_);
      const TensorRef output = host_tensor(products_.data(), {DType::f32, {width_, width_}, {}});
      program_->run(std::span(&input, 1), std::span(&output, 1), *arena_);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += products_[i];
    }
  }

 private:
  static Graph product(std::int64_t width, DType dtype) {
    Graph graph;
    Tensor x = graph.add_input("x", {dtype, {kInputRows, width}, {}});
    graph.add_output("products", ops::matmul(x, x, true, false, DType::f32));
    return graph;
  }

  std::int64_t width_, row_bytes_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Buffer> arena_;
  std::vector<std::byte> rows_;
  std::vector<float> products_;
  Type x_type_;
};

// Sees the operands of every product with a wanted matrix, and adds up the moments of its inputs.
class InputWatcher final : public Watcher {
 public:
  InputWatcher(std::span<const ConstTensorRef> weights, std::span<const int> parameters,
               const Backend& backend)
      : backend_(backend) {
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
    if (weight.ndim() == 2) return add(operands[0], 0, num_rows(operands[0]), readers, 0);
    const std::span<const std::int32_t> begins =
        host_view<std::int32_t>(operands[operand::grouped_linear::kOffsets]);
    for (std::int64_t e = 0; e < weight.dim(0); ++e) {
      const auto at = static_cast<std::size_t>(e);
      add(operands[0], begins[at], begins[at + 1] - begins[at], readers, e);
    }
  }

  std::vector<InputMoments> take() {
    std::vector<InputMoments> out;
    for (auto& [key, moments] : moments_) out.push_back(std::move(moments));
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

  void add(const ConstTensorRef& x, std::int64_t first, std::int64_t count,
           const std::vector<int>& readers, std::int64_t group) {
    const std::int64_t width = x.type().dim(-1);
    InputMoments& out = moments_[{readers.front(), group}];
    if (out.sums.empty()) {
      out.width = width;
      out.sums.resize(static_cast<std::size_t>(width * width));
      for (const int p : readers) out.readers.push_back({p, group});
    }
    if (count == 0) return;
    std::unique_ptr<MomentSum>& sum = sums_[{width, x.type().dtype}];
    if (!sum) sum = std::make_unique<MomentSum>(width, x.type().dtype, backend_);
    const auto bytes = host_view<std::byte>(x);
    sum->add(bytes.data() + first * width * size_bytes(x.type().dtype), count, out.sums);
    out.num_inputs += count;
  }

  const Backend& backend_;
  std::map<Address, int> wanted_;
  std::map<std::pair<std::int64_t, DType>, std::unique_ptr<MomentSum>> sums_;
  std::map<Key, InputMoments> moments_;
};

}  // namespace

std::vector<InputMoments> collect_moments(const decoder::Model& model,
                                          std::span<const ConstTensorRef> weights,
                                          const CalibrationText& text,
                                          std::span<const int> parameters,
                                          const CalibrationOptions& options,
                                          const Backend& backend) {
  const std::int64_t rows = text.num_rows();
  LAMINA_ASSERT(rows > 0 && backend.reaches(MemoryKind::host));
  std::int64_t together = kBatchRows;
  while (rows % together != 0) --together;  // every row counts
  program::BoundProgram layers(model.forward_graph({together, text.tokens_per_row, options.dtype},
                                                   {.normed = true, .logits = false}),
                               backend);
  layers.bind_parameters(weights);
  std::vector<std::byte> normed(static_cast<std::size_t>(
      together * text.tokens_per_row * model.hidden_size() * size_bytes(options.dtype)));
  layers.bind(decoder::Output::normed, normed.data());
  const auto arena = backend.allocate(layers.arena_bytes());
  InputWatcher watcher(weights, parameters, backend);
  layers.program().watch(&watcher);
  for (std::int64_t row = 0; row < rows; row += together) {
    if (options.progress) options.progress(row, rows);
    const auto first = text.ids.begin() + row * text.tokens_per_row;
    const std::vector<std::int32_t> ids(first, first + together * text.tokens_per_row);
    const program::Rows batch = program::rows_of(ids, ids, together, text.tokens_per_row);
    batch.microbatch().bind(layers);
    layers.run(*arena);
  }
  return watcher.take();
}

}  // namespace lamina::model
