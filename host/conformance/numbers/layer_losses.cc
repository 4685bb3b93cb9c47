#include "conformance/numbers/layer_losses.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "conformance/check.h"
#include "conformance/subjects/rows.h"
#include "decoder/losses.h"
#include "graph/rewrite.h"
#include "program/records.h"

namespace lamina::conformance {
namespace {

using decoder::Output;
using program::Rows;

using Losses = std::map<std::string, double>;

decoder::ModelGraph graph_with_losses(const decoder::Model& model, const decoder::GraphShape& shape,
                                      bool draws) {
  return model.loss_graph(shape, {.segments = true, .training = draws, .aux = true});
}

std::vector<std::string> names_of_losses(const decoder::ModelGraph& graph) {
  std::vector<std::string> out;
  for (const decoder::OutputRole& output : graph.outputs)
    if (output.role == Output::named_loss) out.push_back(output.name);
  return out;
}

// The graph of one loss alone.
decoder::ModelGraph alone(const decoder::ModelGraph& whole, const std::string& name) {
  decoder::ModelGraph out;
  out.inputs = whole.inputs;
  Copier copy(whole.graph, out.graph);
  copy.inputs();
  for (const Node& node : whole.graph.nodes()) copy.node(node);
  for (std::size_t i = 0; i < whole.outputs.size(); ++i) {
    if (whole.outputs[i].role != Output::named_loss || whole.outputs[i].name != name) continue;
    decoder::set_losses(out, {{{.name = "loss"}, copy.get(whole.graph.outputs()[i].value)}});
  }
  out.graph = without_dead_nodes(out.graph);
  return out;
}

class Measured {
 public:
  explicit Measured(const ModelCase& c)
      : c_(c), model_(c.open(true)), weights_(c.load(model_, DType::f64)) {
    require_float64(model_);
  }

  const decoder::Model& model() const { return model_; }

  Losses of(const Rows& rows) const {
    const decoder::ModelGraph whole =
        graph_with_losses(model_, {rows.batch, rows.tokens, DType::f64}, false);
    Losses out;
    for (const std::string& name : names_of_losses(whole)) {
      program::BoundProgram program(alone(whole, name), c_.backend());
      program.bind_parameters(weights_.pointers());
      rows.microbatch().bind(program);
      program::run(program, c_.backend());
      out[name] = program.loss("loss");
    }
    return out;
  }

 private:
  const ModelCase& c_;
  const decoder::Model model_;
  const weights::Weights weights_;
};

// A loss that only one of the calls has, because of its length, is not compared.
void expect_same(const Losses& got, const Losses& want, std::string_view what) {
  constexpr double kRounding = 1e-5;
  for (const auto& [name, value] : want) {
    const auto found = got.find(name);
    if (found == got.end()) continue;
    if (!(std::abs(found->second - value) <= kRounding * std::abs(value)))
      fail("auxiliary loss '{}' is {:.6g}, and {:.6g} {}", name, value, found->second, what);
  }
}

}  // namespace

std::vector<std::string> layer_losses(const decoder::Model& model,
                                      const decoder::GraphShape& shape) {
  return names_of_losses(graph_with_losses(model, shape, false));
}

decoder::ModelGraph layer_loss_graph(const decoder::Model& model, const decoder::GraphShape& shape,
                                     const std::string& name, bool draws) {
  return alone(graph_with_losses(model, shape, draws), name);
}

void check_layer_losses_are_means(const ModelCase& c) {
  const Measured measured(c);
  const decoder::Model& model = measured.model();
  const std::int64_t t = row_tokens(model) - 4;
  const Rows first = random_rows(model, 1, t - t / 3, 1), second = random_rows(model, 1, t / 3, 2),
             other = random_rows(model, 1, t, 3);
  const Rows rows = stacked({pack({first, second}, t), other});
  const Losses losses = measured.of(rows);
  if (losses.empty())
    skip(
        "no small model switches an auxiliary loss on; if the family has one, a model in "
        "check/*.toml must set its weight");
  expect_same(measured.of(stacked({rows, rows})), losses,
              "for the same rows twice; it must be a mean over tokens, not a sum");
  expect_same(measured.of(stacked({rows, pack({}, t)})), losses,
              "with a row of padding; counted_mean excludes padding");
  if (model.length_dependent_from()) return;  // another length is another model
  expect_same(measured.of(stacked({pack({second, first}, t), other})), losses,
              "with the documents of a row in reverse order");
  expect_same(measured.of(stacked({pack({first, second}, t + 4), pack({other}, t + 4)})), losses,
              "with padding at the ends of rows; counted_mean excludes padding");
}

}  // namespace lamina::conformance
