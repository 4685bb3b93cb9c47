// Random graphs with views, writes in place and several updated inputs: every placement has the
// results of plain arithmetic.
#include <gtest/gtest.h>

#include <map>

#include "ops/op.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

const Type kRow{DType::f32, {6}, {}}, kHalf{DType::f32, {3}, {}}, kHalves{DType::f32, {2, 3}, {}};
const Type kSlots{DType::f32, {1, 6, 1}, {}}, kStart{DType::i32, {1}, {}};

// A value of the graph, and its numbers: small integers.
struct Item {
  Tensor tensor;
  Doubles numbers;
  std::size_t memory;    // the first item in the same memory
  bool is_gone = false;  // written over
};

class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {
    const std::size_t inputs = 2 + below(3);
    for (std::size_t i = 0; i < inputs; ++i) {
      Doubles numbers;
      for (int n = 0; n < 6; ++n) numbers.push_back(static_cast<double>(below(9)) - 4);
      const Type& type = below(6) == 0 ? kSlots : below(2) ? kHalves : kRow;
      in_.push_back(array(type, numbers));
      add(graph_.add_input("x", type), numbers);
    }
    num_inputs_ = inputs;
    slot_ = below(5);
    start_ = graph_.add_input("start", kStart);
    in_.push_back(array(kStart, {static_cast<double>(slot_)}));
    for (std::size_t nodes = 2 + below(8); nodes > 0; --nodes) add_node();
    add_outputs();
  }

  const Graph& graph() const { return graph_; }
  const std::vector<Array>& inputs() const { return in_; }
  const std::vector<Doubles>& wanted() const { return wanted_; }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }

  void add(Tensor tensor, Doubles numbers) {
    items_.push_back({tensor, std::move(numbers), items_.size()});
  }
  void add_view(Tensor tensor, Doubles numbers, const Item& of) {
    const std::size_t memory = of.memory;
    items_.push_back({tensor, std::move(numbers), memory});
  }

  // Returns an item that can be read and fits, if any.
  template <typename Fits>
  const Item* pick(Fits fits) {
    std::vector<const Item*> found;
    for (const Item& item : items_)
      if (!item.is_gone && fits(item)) found.push_back(&item);
    return found.empty() ? nullptr : found[below(found.size())];
  }
  const Item* pick_type(const Type& type) {
    return pick([&](const Item& item) { return item.tensor.type() == type; });
  }
  const Item* pick_any() {
    return pick([](const Item&) { return true; });
  }
  const Item* pick_six() {
    return pick([](const Item& item) { return item.numbers.size() == 6; });
  }

  void add_node() {
    switch (below(7)) {
      case 0:
        return add_unary();
      case 1:
        return add_sum();
      case 2:
        return add_reshape();
      case 3:
        return below(2) ? add_slice() : add_joined();
      case 4:
        return add_running_sum();
      case 5:
        return add_write();
      default:
        return add_scan();
    }
  }

  void add_unary() {
    const Item x = *pick_any();
    const std::size_t op = below(3);
    Doubles y = x.numbers;
    for (double& v : y) v = op == 0 ? -v : op == 1 ? v + 1 : v;
    add(op == 0   ? ops::scale(x.tensor, -1)
        : op == 1 ? ops::shift(x.tensor, 1)
                  : ops::copy(x.tensor),
        y);
  }

  void add_sum() {
    const Item a = *pick_any(), b = *pick_type(a.tensor.type());
    const bool adds = below(2) != 0;
    Doubles y = a.numbers;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += adds ? b.numbers[i] : -b.numbers[i];
    add(adds ? a.tensor + b.tensor : a.tensor - b.tensor, y);
  }

  void add_reshape() {
    const Item x = *pick_six();
    const Type& to = below(3) == 0 ? kRow : below(2) ? kHalves : kSlots;
    add_view(ops::reshape(x.tensor, to.shape), x.numbers, x);
  }

  void add_slice() {
    const Item* x = pick_type(kRow);
    if (!x) return;
    const Item of = *x;
    const auto at = static_cast<std::ptrdiff_t>(below(4));
    add_view(ops::slice(of.tensor, 0, at, 3),
             Doubles(of.numbers.begin() + at, of.numbers.begin() + at + 3), of);
  }

  void add_joined() {
    const Item *a = pick_type(kHalf), *b = pick_type(kHalf);
    if (!a) return;
    Doubles y = a->numbers;
    y.insert(y.end(), b->numbers.begin(), b->numbers.end());
    add(ops::joined({a->tensor, b->tensor}), y);
  }

  void add_running_sum() {
    const Item* x = pick_type(kRow);
    if (!x) return;
    Doubles y = x->numbers;
    for (std::size_t i = 1; i < y.size(); ++i) y[i] += y[i - 1];
    add(ops::cumsum(x->tensor, {.dim = 0}), y);
  }

  void mark_gone(std::size_t memory) {
    for (Item& item : items_)
      if (item.memory == memory) item.is_gone = true;
  }

  // Writes a number over a slot of an input, once, or of a temporary.
  void add_write() {
    const Item* cache = pick([&](const Item& item) {
      const bool is_whole = &item == &items_[item.memory];
      return is_whole && item.tensor.type() == kSlots;
    });
    if (!cache) return;
    const std::size_t memory = cache->memory;
    const Item* from =
        pick([&](const Item& item) { return item.memory != memory && item.numbers.size() == 6; });
    if (!from) return;
    const Tensor row = ops::slice(ops::reshape(from->tensor, {6}), 0, 2, 1);
    Doubles y = cache->numbers;
    y[slot_] = from->numbers[2];
    const Tensor written = ops::cache_write(cache->tensor, ops::reshape(row, {1, 1, 1}), start_);
    mark_gone(memory);
    if (memory < num_inputs_) updates_[memory] = items_.size();
    add(written, y);
  }

  // Two iterations: c' = c + x, y = x - k; y may be written over x.
  void add_scan() {
    const Item *k = pick_type(kHalf), *c = pick_type(kHalf), *x = pick_type(kHalves);
    if (!k || !x) return;
    const std::size_t memory = x->memory;
    const bool in_place = below(2) && x == &items_[memory] && memory >= num_inputs_ &&
                          k->memory != memory && c->memory != memory;
    const bool reverse = below(2) != 0;
    auto body = std::make_shared<Graph>();
    const Tensor k_in = body->add_input("k", kHalf), c_in = body->add_input("c", kHalf),
                 x_in = body->add_input("x", kHalf);
    body->add_output("c", c_in + x_in);
    body->add_output("y", x_in - k_in, in_place ? 2 : -1);
    const std::vector<Tensor> made = ops::scan(
        {k->tensor, c->tensor, x->tensor},
        {.body = body, .times = 2, .num_consts = 1, .num_carries = 1, .reverse = reverse});
    Doubles carry = c->numbers, y = x->numbers;
    for (std::size_t i = 0; i < y.size(); ++i) {
      carry[i % 3] += y[i];
      y[i] -= k->numbers[i % 3];
    }
    if (in_place) mark_gone(memory);
    add(made[0], carry);
    add(made[1], y);
  }

  // An input that is written over has an update; others may have one.
  void add_outputs() {
    std::vector<bool> is_updated(num_inputs_);
    for (const auto& [input, item] : updates_) {
      const Item* other = pick_type(kSlots);
      const bool keeps = !items_[item].is_gone && (below(3) != 0 || !other);
      const Item* update = keeps ? &items_[item] : other;
      if (!update) update = &items_[item];
      add_output(*update, static_cast<int>(input));
      is_updated[input] = true;
    }
    for (std::size_t outputs = 2 + below(3); outputs > 0; --outputs) {
      const Item* item = pick_any();
      int over = -1;
      for (std::size_t i = 0; i < num_inputs_ && over < 0; ++i)
        if (below(4) && !is_updated[i] && items_[i].tensor.type() == item->tensor.type())
          over = static_cast<int>(i), is_updated[i] = true;
      add_output(*item, over);
    }
  }
  void add_output(const Item& item, int over) {
    graph_.add_output("y", item.tensor, over);
    wanted_.push_back(item.numbers);
  }

  std::mt19937 random_;
  Graph graph_;
  std::vector<Item> items_;
  std::size_t num_inputs_ = 0, slot_ = 0;
  Tensor start_;
  std::map<std::size_t, std::size_t> updates_;  // of inputs that are written over
  std::vector<Array> in_;
  std::vector<Doubles> wanted_;
};

TEST(RandomPrograms, ResultsEqualPlainArithmetic) {
  for (unsigned seed = 0; seed < 10000; ++seed) {
    const RandomGraph made(seed);
    const auto unchanged = run_unoptimized(made.graph(), made.inputs());
    const auto optimized = run(made.graph(), made.inputs());
    for (std::size_t o = 0; o < made.wanted().size(); ++o) {
      EXPECT_EQ(to_doubles(unchanged[o]), made.wanted()[o]) << "seed " << seed << ", output " << o;
      EXPECT_EQ(to_doubles(optimized[o]), made.wanted()[o])
          << "seed " << seed << ", output " << o << ", optimized";
    }
  }
}

}  // namespace
}  // namespace lamina::testing
