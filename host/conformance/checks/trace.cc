// TRC: descriptions by a block, which must be the same for any phase, batch and length.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "config/sections.h"
#include "conformance/check.h"
#include "conformance/checks/checks.h"
#include "conformance/subjects/fingerprint.h"
#include "conformance/subjects/rows.h"
#include "conformance/subjects/subject.h"
#include "conformance/subjects/variants.h"
#include "core/error.h"
#include "decode/session.h"
#include "graph/graph.h"

namespace lamina::conformance {
namespace {

// Traces a graph for several calls; skips lengths for which the model has no positions.
template <typename Make>
void where_possible(const decoder::Model& model, std::int64_t tokens, Make&& make) {
  if (has_positions(model, tokens)) make();
}

// Small calls, large ones, and calls around powers of two. Long rows and large batches take as long
// to trace as small ones.
constexpr std::int64_t kLongest = 100003;
constexpr auto kShapes = std::to_array<decoder::GraphShape>({{1, 1},
                                                             {2, 1},
                                                             {3, 4},
                                                             {3, 7},
                                                             {1, 9},
                                                             {1, 33},
                                                             {2, 64},
                                                             {3, 129},
                                                             {9, 6},
                                                             {17, 5},
                                                             {1009, 5},
                                                             {1, 2049},
                                                             {1, kLongest}});
// The calls that the host itself makes by default, for prompts and in training; the pieces of a
// prompt just beside them; and some of no special size.
std::vector<decoder::GraphShape> shapes_of(const FamilySubject& subject) {
  const std::int64_t piece = decode::SessionOptions{}.call_tokens;
  std::vector<decoder::GraphShape> out(kShapes.begin(), kShapes.end());
  for (const std::int64_t tokens : {piece - 1, piece, piece + 1}) out.push_back({1, tokens});
  out.push_back({config::TrainSection{}.batch_size, config::DataSection{}.sequence_length});
  std::mt19937_64 random(subject.settings().seed);
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  constexpr int kDrawn = 2;
  for (int i = 0; i < kDrawn; ++i) {
    const std::int64_t rows = 1 + below(8);
    out.push_back({rows, 2 + below(2 * piece)});
  }
  return out;
}

// For models with another flag.
constexpr auto kFewShapes =
    std::to_array<decoder::GraphShape>({{1, 1}, {3, 7}, {1009, 5}, {1, kLongest}});

// Longer ones are traced with one row only.
constexpr std::int64_t kLongestOfSeveralRows = 31;
constexpr std::int64_t kLongestWindow = 1024;

// Lengths around the numbers of the config: windows, chunks, original contexts.
std::vector<std::int64_t> lengths(const decoder::Model& model) {
  std::set<std::int64_t> out = {1, 2, 3, 5, 8, 13, 31, 33, 64, 129, kLongest};
  for (const config::Entry& entry : model.config().values().entries())
    if (const auto* value = entry.value.get_if<std::int64_t>())
      if (entry.key.find("window") != entry.key.npos || entry.key.find("chunk") != entry.key.npos)
        for (const std::int64_t n : {*value - 1, *value, *value + 1})
          if (n > 0 && n <= kLongestWindow) out.insert(n);
  return {out.begin(), out.end()};
}

// True if the attribute follows the sizes of tensors. A plugin's scan is a region over time.
bool is_size(const Node& node, std::size_t attr) {
  const auto& sizes = node.op->def->facts.size_attrs;
  return std::ranges::find(sizes, node.op->attrs[attr].name) != sizes.end();
}

std::string place_of(const Node& node) {
  return node.origin ? fmt::format("{} ({})", node.op->name, to_string(*node.origin))
                     : node.op->name;
}

// True for nodes of the plugin: the host may treat sizes differently.
bool is_plugins(const Node& node) { return node.origin && !node.origin->file.empty(); }

// Adds the nodes that outputs depend on: losses and metrics may be means over tokens.
void add_plugin_nodes(const Graph& graph, std::vector<const Node*>& to) {
  std::vector<bool> wanted(graph.values().size());
  for (const GraphOutput& output : graph.outputs()) wanted[output.value] = true;
  std::vector<const Node*> mine;
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    if (std::ranges::none_of(node->outputs, [&](ValueId v) { return wanted[v]; })) continue;
    for (ValueId v : node->inputs)
      if (v != kNoValue) wanted[v] = true;
    mine.push_back(&*node);
  }
  for (auto node = mine.rbegin(); node != mine.rend(); ++node) {
    if (is_plugins(**node)) to.push_back(*node);
    for (const AttrValue& attr : (*node)->attrs)
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attr); body && *body)
        add_plugin_nodes(**body, to);
  }
}

std::vector<const Node*> plugin_nodes(const Graph& graph) {
  std::vector<const Node*> out;
  add_plugin_nodes(graph, out);
  return out;
}

// The graphs of two calls must differ only in sizes.
void compare_sizes(const Graph& small, const Graph& large, const std::string& what) {
  const std::vector<const Node*> a = plugin_nodes(small), b = plugin_nodes(large);
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= a.size() || i >= b.size())
      fail("{}: {} ops and {}, the first more is {}", what, a.size(), b.size(),
           place_of(*(i < a.size() ? a[i] : b[i])));
    if (a[i]->op != b[i]->op)
      fail("{}: {} in one and {} in the other", what, place_of(*a[i]), place_of(*b[i]));
    for (std::size_t k = 0; k < a[i]->attrs.size(); ++k)
      if (!is_size(*a[i], k) && !same_attr(a[i]->attrs[k], b[i]->attrs[k]) &&
          !std::holds_alternative<std::shared_ptr<const Graph>>(a[i]->attrs[k]))
        fail("{}: attribute '{}' of {} differs", what, a[i]->op->attrs[k].name, place_of(*a[i]));
  }
}

// The models of TRC-1: all small models, and the first one with each key changed. At level quick
// only a plugin with a single model is changed: two models may show values that are kept.
std::vector<SmallModel> models_and_variants(const FamilySubject& subject) {
  std::vector<SmallModel> out = subject.models();
  const bool is_only_one = out.size() == 1 && subject.siblings().size() <= 1;
  if (!subject.at_least(Level::full) && !is_only_one) return out;
  for (Variant& variant : variants_of(subject, out.front(), Changed::everything))
    out.push_back(std::move(variant.model));
  return out;
}

// Runs `compute` in a separate process, a copy of this one; nothing if it has no result there.
std::optional<std::uint64_t> in_a_copy(
    const std::function<std::optional<std::uint64_t>()>& compute) {
  int ends[2];
  if (pipe(ends) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const auto found = compute();
    const bool is_whole = found && write(ends[1], &*found, sizeof *found) == sizeof *found;
    _exit(is_whole ? 0 : 1);
  }
  close(ends[1]);
  std::uint64_t value = 0;
  const bool is_whole = child > 0 && read(ends[0], &value, sizeof value) == sizeof value;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return is_whole ? std::optional(value) : std::nullopt;
}

using Fingerprints = std::vector<std::optional<std::uint64_t>>;

Fingerprints fingerprints_of(const FamilySubject& subject, const std::vector<SmallModel>& models) {
  Fingerprints out;
  for (const SmallModel& model : models) out.push_back(fingerprint_of(subject, model));
  return out;
}

}  // namespace

void check_purity(const FamilySubject& subject) {
  const std::vector<SmallModel> all = models_and_variants(subject);
  Fingerprints alone;  // in processes without builds of other models
  for (const SmallModel& model : all)
    alone.push_back(in_a_copy([&] { return fingerprint_of(subject, model); }));
  const Fingerprints first = fingerprints_of(subject, all);
  for (std::size_t i = 0; i < subject.models().size(); ++i)
    if (!first[i]) subject.open(all[i]);  // throws Refused
  const auto compare = [&](const Fingerprints& with, std::string_view difference) {
    for (std::size_t i = 0; i < with.size(); ++i)
      if (with[i] != first[i])
        fail(
            "compute every number from the config and inputs of the call: the graphs of model "
            "'{}' {}",
            all[i].name, difference);
  };
  Fingerprints there;
  std::thread([&] { there = fingerprints_of(subject, subject.models()); }).join();
  if (!std::equal(there.begin(), there.end(), first.begin()))
    compare(fingerprints_of(subject, subject.models()), "differ when they are built again");
  compare(there, "differ when another thread builds them");
  compare(alone,
          "are others after other models: a static variable keeps values of the first config or "
          "batch");
  for (const auto& found : first) subject.remember(found.value_or(0));
}

void check_declarations(const FamilySubject& subject) {
  for (const SmallModel& small : subject.models()) {
    const decoder::Model model = subject.open(small);
    const std::vector<std::int64_t> all = lengths(model);
    for (const std::int64_t tokens : all) {
      const std::int64_t most_rows = tokens <= kLongestOfSeveralRows ? 3 : 1;
      for (std::int64_t batch = 1; batch <= most_rows; batch += 2) {
        where_possible(model, tokens, [&] {
          model.loss_graph({batch, tokens}, {.training = true, .aux = true, .mtp = true});
          model.forward_graph({batch, tokens}, {.segments = true});
        });
        if (!model.is_autoregressive()) continue;
        where_possible(model, tokens + 3, [&] {
          model.decode_graph({batch, tokens}, {.capacity = tokens + 3, .max_call_tokens = tokens});
        });
      }
    }
    // The opened model is float32: a type that a block insists on shows only with other types.
    const decoder::GraphShape shape{2, 5, DType::bf16};
    model.loss_graph(shape, {.training = true, .aux = true, .mtp = true});
    if (model.is_autoregressive()) model.decode_graph(shape, {.capacity = 8, .max_call_tokens = 5});
  }
}

namespace {

void compare_calls(const decoder::Model& model, const std::string& name_of_model,
                   std::span<const decoder::GraphShape> shapes) {
  const auto name = [&](const char* phase, decoder::GraphShape a, decoder::GraphShape b) {
    return fmt::format("{} of model '{}' with B = {}, T = {} and with B = {}, T = {}", phase,
                       name_of_model, a.batch, a.tokens, b.batch, b.tokens);
  };
  const decoder::GraphShape base{2, 5};
  const decoder::GraphFeatures training{.training = true, .mtp = true};
  const Graph forward = model.forward_graph(base).graph,
              loss = model.loss_graph(base, training).graph;
  for (const decoder::GraphShape& other : shapes)
    where_possible(model, other.tokens, [&] {
      compare_sizes(forward, model.forward_graph(other).graph,
                    name("the forward pass", base, other));
      compare_sizes(loss, model.loss_graph(other, training).graph, name("training", base, other));
    });
  if (!model.is_autoregressive()) return;
  // The state is the same in all calls, so reads of it are equal.
  for (const decoder::StateSize& state : {decoder::StateSize{16, 9}, {kLongest + 16, kLongest}})
    where_possible(model, state.capacity, [&] {
      const Graph decode = model.decode_graph(base, state).graph;
      for (const decoder::GraphShape& other : shapes)
        if (other.tokens <= state.max_call_tokens)
          compare_sizes(decode, model.decode_graph(other, state).graph,
                        name("decoding", base, other));
    });
}

}  // namespace

void check_sizes_do_not_matter(const FamilySubject& subject) {
  for (const SmallModel& small : subject.models())
    compare_calls(subject.open(small), small.name, shapes_of(subject));
  if (!subject.at_least(Level::full)) return;
  for (const SmallModel& switched : switched_models(subject))
    compare_calls(subject.open(switched), switched.name, kFewShapes);
}

// The host checks every graph that it makes.
void check_tokens_apart(const FamilySubject& subject) {
  for (const SmallModel& small : subject.models()) {
    const decoder::Model model = subject.open(small);
    for (const decoder::GraphShape& shape : shapes_of(subject))
      where_possible(model, shape.tokens, [&] {
        model.loss_graph(shape, {.segments = true, .training = true, .mtp = true});
      });
  }
}

}  // namespace lamina::conformance
