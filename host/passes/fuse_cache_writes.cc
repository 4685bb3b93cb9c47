#include "passes/fuse_cache_writes.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "graph/count_reads.h"
#include "graph/rewrite.h"
#include "graph/written_over.h"
#include "ops/op_code.h"
#include "ops/operands.h"
#include "ops/tensor.h"
#include "passes/levels.h"

namespace lamina::passes {
namespace {

// A cache_write and its rows, before their rotation if there is one.
struct RowsWrite {
  NodeId write = kNoNode;
  NodeId rotation = kNoNode;
  ValueId rows = kNoValue;
};

// The parts of a rotate_write.
struct WriteGroup {
  RowsWrite k, v;
  NodeId q = kNoNode;

  // Returns a rotation of the group, or kNoNode: all have the same table.
  NodeId rotation() const {
    return k.rotation != kNoNode ? k.rotation : v.rotation != kNoNode ? v.rotation : q;
  }
  // Returns the nodes that it replaces, in their order.
  std::vector<NodeId> members() const {
    std::vector<NodeId> out{k.write, v.write, q};
    std::erase(out, kNoNode);
    std::ranges::sort(out);
    return out;
  }
};

class CacheWriteFusion {
 public:
  explicit CacheWriteFusion(const Graph& graph)
      : graph_(graph),
        overwrites_(graph),
        reads_(count_reads(graph)),
        is_member_(graph.nodes().size()),
        is_taken_(graph.nodes().size()) {}

  std::optional<Graph> run() {
    find_writes();
    if (writes_.empty()) return std::nullopt;
    find_queries();
    for (std::size_t i = 0; i < writes_.size(); ++i)
      if (!is_member_[writes_[i].write]) form_group(i);
    if (groups_.empty()) return std::nullopt;
    return rewritten();
  }

 private:
  const Node& node(NodeId n) const { return graph_.node(n); }
  const Type& type_of_rows(NodeId rotation) const {
    return graph_.type(node(rotation).inputs[operand::rotate::kX]);
  }
  bool is_rotation(NodeId n) const {
    return n != kNoNode && node(n).op->code == OpCode::rotate && node(n).int_attr("inverse") == 0;
  }

  void find_writes() {
    std::unordered_map<NodeId, int> writes_of;  // by rotation
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      if (node(n).op->code != OpCode::cache_write || !may_move(node(n))) continue;
      writes_.push_back(rows_write(n));
      ++writes_of[writes_.back().rotation];
    }
    // A rotation that something else reads is computed anyway. One with operands that are gone at
    // the write stays.
    for (RowsWrite& w : writes_)
      if (w.rotation != kNoNode && (reads_[node(w.rotation).outputs[0]] != writes_of[w.rotation] ||
                                    overwrites_.forbid(node(w.rotation), w.write)))
        w = {.write = w.write, .rows = node(w.write).inputs[operand::cache_write::kUpdate]};
  }

  // True if nothing else reads the cache that is written over.
  bool may_move(const Node& write) const {
    const ValueId cache = write.inputs[operand::cache_write::kCache];
    const NodeId made_by = graph_.value(cache).node;
    return is_floating(graph_.type(cache).dtype) && reads_[cache] == 1 &&
           (made_by == kNoNode || !node(made_by).op->def->view);
  }

  // Finds the rotation behind reshapes.
  RowsWrite rows_write(NodeId n) const {
    RowsWrite out{.write = n, .rows = node(n).inputs[operand::cache_write::kUpdate]};
    ValueId v = out.rows;
    NodeId made_by = graph_.value(v).node;
    while (made_by != kNoNode && is_reshape(node(made_by)) && reads_[v] == 1) {
      v = node(made_by).inputs[0];
      made_by = graph_.value(v).node;
    }
    if (is_rotation(made_by))
      out.rotation = made_by, out.rows = node(made_by).inputs[operand::rotate::kX];
    return out;
  }

  // A view of all elements.
  bool is_reshape(const Node& n) const {
    return n.op->def->view &&
           graph_.type(n.inputs[0]).num_elements() == graph_.type(n.outputs[0]).num_elements();
  }

  // Rotations that no write repeats.
  void find_queries() {
    std::vector<bool> repeated(graph_.nodes().size());
    for (const RowsWrite& w : writes_)
      if (w.rotation != kNoNode) repeated[w.rotation] = true;
    for (NodeId n = 0; n < graph_.nodes().size(); ++n)
      if (is_rotation(n) && !repeated[n]) queries_.push_back(n);
  }

  void form_group(std::size_t i) {
    WriteGroup group{.k = writes_[i], .v = {}};
    for (std::size_t next = i + 1; next < writes_.size(); ++next)
      if (has_same_slots(writes_[i], writes_[next])) {
        add({.k = group.k, .v = writes_[next]}, group);
        break;
      }
    add_query(group);
    const std::vector<NodeId> members = group.members();
    if (members.size() < 2 && (group.rotation() == kNoNode || !may_form(group))) return;
    for (NodeId n : members) is_member_[n] = true;
    for (NodeId n = members.front(); n <= members.back(); ++n) is_taken_[n] = true;
    end_of_groups_ = std::max(end_of_groups_, members.back());
    groups_.emplace(members.back(), std::move(group));
  }

  bool has_same_slots(const RowsWrite& a, const RowsWrite& b) const {
    namespace in = operand::cache_write;
    const Node &k = node(a.write), &v = node(b.write);
    return !is_member_[b.write] && v.inputs[in::kStart] == k.inputs[in::kStart] &&
           same_attrs(v.attrs, k.attrs) &&
           graph_.type(v.inputs[in::kUpdate]).dim(1) == graph_.type(k.inputs[in::kUpdate]).dim(1);
  }

  // Adds the last rotation before the writes that can be, or else the next one after them. No group
  // reaches behind another one.
  void add_query(WriteGroup& group) const {
    const auto after = std::ranges::upper_bound(queries_, group.k.write);
    for (auto q = after; q != queries_.begin() && *--q >= end_of_groups_;)
      if (add_query(*q, group)) return;
    if (after != queries_.end()) add_query(*after, group);
  }

  bool add_query(NodeId q, WriteGroup& group) const {
    const Type &x = type_of_rows(q), &k = graph_.type(group.k.rows);
    return x.dim(0) == k.dim(0) && x.dim(1) == k.dim(1) &&
           add({.k = group.k, .v = group.v, .q = q}, group);
  }

  // Sets `group` to `with` if its parts may be computed together.
  bool add(const WriteGroup& with, WriteGroup& group) const {
    namespace in = operand::rotate;
    const NodeId first = with.rotation();
    for (NodeId n : {with.k.rotation, with.v.rotation, with.q})
      if (n != kNoNode && (node(n).inputs[in::kTable] != node(first).inputs[in::kTable] ||
                           !same_attrs(node(n).attrs, node(first).attrs)))
        return false;
    const DType dtype = graph_.type(with.k.rows).dtype;
    const bool is_alike = (with.v.write == kNoNode || graph_.type(with.v.rows).dtype == dtype) &&
                          (with.q == kNoNode || type_of_rows(with.q).dtype == dtype);
    if (!is_alike || !may_form(with)) return false;
    group = with;
    return true;
  }

  // True if no member needs a result of another one, no node from the first to the last is in the
  // range of another group, and nothing that is read late is written over by then.
  bool may_form(const WriteGroup& group) const {
    const std::vector<NodeId> members = group.members();
    const NodeId first = members.front(), last = members.back();
    std::vector<bool> late(last - first + 1);  // computed with the group, or after it
    for (NodeId n = first; n <= last; ++n) {
      const bool reads_late = std::ranges::any_of(node(n).inputs, [&](ValueId v) {
        const NodeId made_by = v == kNoValue ? kNoNode : graph_.value(v).node;
        return made_by != kNoNode && made_by >= first && made_by <= last && late[made_by - first];
      });
      const bool is_member = std::ranges::binary_search(members, n);
      if (is_taken_[n] || (is_member && reads_late)) return false;
      late[n - first] = is_member || reads_late;
    }
    // The order of late nodes stays.
    const auto is_kept = [&](NodeId reader) {
      return std::ranges::none_of(node(reader).inputs, [&](ValueId v) {
        const NodeId write = overwrites_.of(v);
        return write < first || (write <= last && write > reader && !late[write - first]);
      });
    };
    for (NodeId n = first; n <= last; ++n)
      if (late[n - first] && !is_kept(n)) return false;
    for (NodeId rotation : {group.k.rotation, group.v.rotation})
      if (rotation != kNoNode && !is_kept(rotation)) return false;
    return true;
  }

  Graph rewritten() const {
    Graph out;
    Copier copy(graph_, out);
    copy.inputs();
    std::vector<NodeId> waiting;  // for results of the next group
    const auto copy_node = [&](NodeId n) {
      out.set_origin(node(n).origin);
      copy.node(node(n));
    };
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      if (!is_member_[n]) {
        const bool is_ready = std::ranges::all_of(
            node(n).inputs, [&](ValueId v) { return v == kNoValue || copy.has(v); });
        if (is_ready)
          copy_node(n);
        else
          waiting.push_back(n);
        continue;
      }
      const auto group = groups_.find(n);
      if (group == groups_.end()) continue;
      out.set_origin(node(n).origin);
      emit(group->second, copy);
      for (NodeId later : waiting) copy_node(later);
      waiting.clear();
    }
    copy.outputs();
    return out;
  }

  void emit(const WriteGroup& group, Copier& copy) const {
    const auto operand_of = [&](NodeId n, int input) {
      return n == kNoNode ? Tensor{} : copy.get(node(n).inputs[static_cast<std::size_t>(input)]);
    };
    const Node& k = node(group.k.write);
    const NodeId rotation = group.rotation();
    const auto made = ops::rotate_write(
        {.k_cache = operand_of(group.k.write, operand::cache_write::kCache),
         .v_cache = operand_of(group.v.write, operand::cache_write::kCache),
         .k = copy.get(group.k.rows),
         .v = copy.get(group.v.rows),
         .q = operand_of(group.q, operand::rotate::kX),
         .table = operand_of(rotation, operand::rotate::kTable),
         .start = operand_of(group.k.write, operand::cache_write::kStart)},
        {.rotate_k = group.k.rotation != kNoNode,
         .rotate_v = group.v.rotation != kNoNode,
         .interleaved = rotation != kNoNode && node(rotation).int_attr("interleaved") != 0,
         .ring = k.int_attr("ring") != 0,
         .first = k.int_attr("first"),
         .slots = k.int_attr("slots")});
    copy.set(k.outputs[0], made.k_out);
    if (group.v.write != kNoNode) copy.set(node(group.v.write).outputs[0], made.v_out);
    if (group.q != kNoNode) copy.set(node(group.q).outputs[0], made.q_out);
  }

  const Graph& graph_;
  const Overwrites overwrites_;
  std::vector<int> reads_;
  std::vector<RowsWrite> writes_;
  std::vector<NodeId> queries_;
  std::vector<bool> is_member_;
  std::vector<bool> is_taken_;  // nodes from the first to the last member of a group
  std::unordered_map<NodeId, WriteGroup> groups_;  // by the last member
  NodeId end_of_groups_ = 0;
};

}  // namespace

Graph fuse_cache_writes(Graph graph) {
  return on_all_levels(std::move(graph),
                       [](const Graph& level) { return CacheWriteFusion(level).run(); });
}

}  // namespace lamina::passes
