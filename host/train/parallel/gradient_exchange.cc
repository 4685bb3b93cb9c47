#include "train/parallel/gradient_exchange.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/error.h"
#include "graph/views.h"

namespace lamina::train {
namespace {

Address end_of(const ConstTensorRef& tensor) { return tensor.address() + tensor.bytes(); }

// Returns the gradients that are complete when the pass ends; null for lists of rows, and for
// gradients that share memory.
std::vector<TensorRef> whole_gradients(const TrainState& state) {
  std::vector<TensorRef> out(state.gradients().begin(), state.gradients().end());
  for (std::size_t i = 0; i < out.size(); ++i)
    if (state.is_listed(static_cast<int>(i)) || state.lists().is_shared(static_cast<int>(i)))
      out[i] = {};
  return out;
}

}  // namespace

GradientOrder::GradientOrder(const program::BoundProgram& program, std::vector<TensorRef> gradients)
    : program_(program), gradients_(std::move(gradients)), last_(gradients_.size()) {
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (gradients_[i] && gradients_[i].bytes() > 0) at_.emplace(gradients_[i].address(), i);
  const Graph& graph = program.program().graph();
  for (std::size_t o = 0; o < program.output_roles().size(); ++o) {
    const decoder::OutputRole& output = program.output_roles()[o];
    if (output.role != decoder::Output::gradient) continue;
    const std::vector<int>& members =
        program.input_roles()[static_cast<std::size_t>(output.input)].members;
    std::vector<int>& of = of_output_[made_at(graph, graph.outputs()[o].value)];
    of.insert(of.end(), members.begin(), members.end());
  }
}

void GradientOrder::touch(Address begin, Address end, std::int64_t call) {
  auto next = at_.lower_bound(end);
  while (next != at_.begin()) {
    --next;
    if (end_of(gradients_[next->second]) <= begin) return;
    last_[next->second] = call;
  }
}

void GradientOrder::read(const Graph& graph, const Node& node, std::int64_t call) {
  const bool is_whole = &graph == &program_.program().graph();
  for (const ValueId input : node.inputs) {
    if (input == kNoValue) continue;
    // Views are no kernel calls: reading a view is reading the value behind it.
    const ValueId value = made_at(graph, input);
    if (const auto found = written_.find({&graph, value}); found != written_.end())
      touch(found->second.first, found->second.second, call);
    if (!is_whole) continue;
    if (const auto found = of_output_.find(value); found != of_output_.end())
      for (const int parameter : found->second) {
        const TensorRef& gradient = gradients_[static_cast<std::size_t>(parameter)];
        if (gradient) touch(gradient.address(), end_of(gradient), call);
      }
  }
}

void GradientOrder::enter(const Graph& graph, NodeId scan, std::int64_t call) {
  scans_.emplace_back(&graph, scan);
  read(graph, graph.node(scan), call);
}

// Results of the scan are where the body wrote its results.
void GradientOrder::leave() {
  const auto [graph, id] = scans_.back();
  scans_.pop_back();
  const Node& scan = graph->node(id);
  const Graph& body = *scan.body();
  for (std::size_t o = 0; o < scan.outputs.size(); ++o) {
    const auto found = written_.find({&body, made_at(body, body.outputs()[o].value)});
    if (found != written_.end()) written_[{graph, scan.outputs[o]}] = found->second;
  }
}

void GradientOrder::ran(const Graph& graph, NodeId id, std::span<const TensorRef> results,
                        std::int64_t call) {
  const Node& node = graph.node(id);
  read(graph, node, call);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i] || results[i].bytes() == 0) continue;
    touch(results[i].address(), end_of(results[i]), call);
    written_[{&graph, node.outputs[i]}] = {results[i].address(), end_of(results[i])};
  }
}

GradientExchange::GradientExchange(program::BoundProgram& program, GradientTensors& tensors,
                                   const TrainState& state, const GradientLists& lists_of_rank,
                                   Communicator& communicator, std::size_t bucket_bytes,
                                   RankUpdates* updates)
    : program_(program),
      tensors_(tensors),
      state_(state),
      communicator_(communicator),
      bucket_bytes_(bucket_bytes),
      updates_(updates) {
  const std::int64_t ranks = communicator.num_ranks();
  const auto add = [&](const Type& type) {
    return gathered_.add(static_cast<std::size_t>(type.bytes() * ranks));
  };
  std::vector<std::pair<std::size_t, std::size_t>> parts;  // of the ids and the rows of each list
  for (std::size_t i = 0; i < state.gradients().size(); ++i) {
    if (!state.is_listed(static_cast<int>(i))) continue;
    const TensorRef& rows = state.gradients()[i];
    const std::int64_t slots = lists_of_rank.step[i];
    lists_.push_back({static_cast<int>(i),
                      state.gradient_ids()[i].part(0, {DType::i32, {slots}, {}}),
                      rows.part(0, {DType::f32, {slots, rows.type().dim(-1)}, {}}),
                      {},
                      {}});
    const std::size_t ids = add(lists_.back().ids.type());
    parts.emplace_back(ids, add(lists_.back().rows.type()));
  }
  if (lists_.empty()) return;
  gathered_.allocate(communicator.backend());
  const auto of_ranks = [&](Type type) {
    type.shape[0] *= ranks;
    return type;
  };
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    lists_[i].all_ids = gathered_.tensor(parts[i].first, of_ranks(lists_[i].ids.type()));
    lists_[i].all_rows = gathered_.tensor(parts[i].second, of_ranks(lists_[i].rows.type()));
  }
}

std::size_t GradientExchange::bytes(const decoder::ParameterTable& parameters,
                                    const GradientLists& lists, std::int64_t microbatches,
                                    int num_ranks) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < lists.microbatch.size(); ++i) {
    const Shape& table = parameters.all()[i].desc.shape;
    const std::int64_t slots = std::min(table[0], microbatches * lists.microbatch[i]);
    if (lists.microbatch[i] > 0)
      for (const Type& type :
           {Type{DType::i32, {slots}, {}}, Type{DType::f32, {slots, table[1]}, {}}})
        out += aligned(static_cast<std::size_t>(type.bytes() * num_ranks));
  }
  return out;
}

void GradientExchange::around_last(const std::function<void()>& run) {
  num_calls_ = 0;
  next_ = 0;
  if (buckets_.empty()) order_.emplace(program_, whole_gradients(state_));
  {
    const Watching watching(program_.program(), *this);
    run();
  }
  if (order_) make_buckets();
  while (next_ < buckets_.size()) send();
  if (updates_) updates_->finish();
}

void GradientExchange::enter(const Graph& graph, NodeId scan, std::int64_t element) {
  if (updates_) updates_->enter(graph, scan, element);
  if (order_) order_->enter(graph, scan, num_calls_);
}

void GradientExchange::leave() {
  if (order_) order_->leave();
  if (updates_) updates_->leave();
}

void GradientExchange::ran(const Graph& graph, NodeId node, std::span<const TensorRef> results) {
  ++num_calls_;
  if (order_) order_->ran(graph, node, results, num_calls_);
  while (next_ < buckets_.size() && buckets_[next_].after == num_calls_) send();
}

// Fills buckets in the order in which gradients are complete. A gradient that no call wrote stays
// zero on every rank, and costs little in the last bucket.
void GradientExchange::make_buckets() {
  const std::vector<TensorRef> gradients = whole_gradients(state_);
  std::vector<std::int64_t> last = order_->last_calls();
  order_.reset();
  for (std::int64_t& call : last)
    if (call == 0) call = num_calls_ + 1;
  std::vector<std::size_t> order(last.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return last[i]; });
  std::size_t bytes = bucket_bytes_;
  for (const std::size_t i : order) {
    if (!gradients[i]) continue;
    if (bytes >= bucket_bytes_) {
      buckets_.emplace_back();
      bytes = 0;
    }
    buckets_.back().gradients.push_back(gradients[i]);
    buckets_.back().after = last[i];
    bytes += gradients[i].bytes();
  }
}

void GradientExchange::send() {
  communicator_.queue().wait(program_.program().queue().record());
  communicator_.all_reduce(buckets_[next_++].gradients);
}

void GradientExchange::finish() {
  gather_lists();
  communicator_.finish();
  for (const Gathered& list : lists_) {
    std::vector<GradientTensors::RowList> of_ranks;
    const std::int64_t slots = list.ids.type().num_elements(), width = list.rows.type().dim(-1);
    for (int rank = 0; rank < communicator_.num_ranks(); ++rank)
      of_ranks.push_back({list.all_ids.part(rank * slots, list.ids.type()),
                          list.all_rows.part(rank * slots * width, list.rows.type())});
    tensors_.replace_list(state_, list.parameter, of_ranks);
  }
}

void GradientExchange::gather_lists() {
  if (lists_.empty()) return;
  communicator_.queue().wait(program_.program().queue().record());
  for (const Gathered& list : lists_) {
    communicator_.all_gather(list.all_ids, list.ids);
    communicator_.all_gather(list.all_rows, list.rows);
  }
}

}  // namespace lamina::train
