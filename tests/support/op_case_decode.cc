// Checks the decode form of an op by reading rows call by call: with the state, tokens give the
// same results as in one call for the whole row.
#include <algorithm>
#include <map>

#include "ops/decode.h"
#include "ops/registry.h"
#include "ops/split.h"
#include "support/op_case_build.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

// A block of one op, without decode state or with the tokens of a call.
class Trace final : public ops::DecodeContext {
 public:
  Trace(std::int64_t rows, std::int64_t capacity, std::int64_t call_tokens)
      : rows_(rows), capacity_(capacity), call_tokens_(call_tokens) {}

  struct State {
    Tensor before, after;
  };
  std::vector<State> states;
  std::map<ops::HostInput, Tensor> host_inputs;
  bool remembers = true;

  Graph& graph() override { return graph_; }
  bool stateful() const override { return call_tokens_ > 0; }
  std::int64_t capacity() const override { return capacity_; }
  std::int64_t max_call_tokens() const override { return call_tokens_; }
  bool segments() const override { return false; }
  Tensor host_input(ops::HostInput input) override {
    const bool per_row = input == ops::HostInput::start || input == ops::HostInput::count;
    const Shape shape =
        per_row ? Shape{rows_} : Shape{rows_, stateful() ? call_tokens_ : capacity_};
    Tensor& known = host_inputs[input];
    if (!known) known = graph_.add_input("host", {DType::i32, shape, {}});
    return known;
  }
  Tensor state_input(const std::string& name, ops::StateKind, const Type& type, bool) override {
    states.push_back({graph_.add_input(name, type), {}});
    return states.back().before;
  }
  void state_output(Tensor state, Tensor written) override {
    for (State& s : states)
      if (s.before.id == state.id) s.after = written;
  }
  const std::optional<ops::KeysAndValues>& donor() const override { return donor_; }
  void donate(const ops::KeysAndValues&) override {}

 private:
  Graph graph_;
  std::int64_t rows_, capacity_, call_tokens_;
  std::optional<ops::KeysAndValues> donor_;
};

// A case whose token operands are [B, T, ...], by the letters of its split rule.
struct Rows {
  const OpCases& list;
  const OpCase& c;
  Built built;
  std::vector<bool> input_has_tokens, output_has_tokens;
  std::int64_t rows = 0, tokens = 0;

  Rows(const OpCases& l, const OpCase& one, DType dtype) : list(l), c(one) {
    build(list, c, dtype, dtype, built);
    const ops::SplitRule rule = with_node_view(built.graph, built.node(), [](const NodeView& view) {
      return ops::split_rule(view).value();
    });
    auto has_tokens = [](const ops::OperandSplit& operand) {
      return operand.dims.size() > 1 && operand.dims.starts_with("bT");
    };
    for (const auto& operand : rule.inputs) input_has_tokens.push_back(has_tokens(operand));
    for (const auto& operand : rule.outputs) output_has_tokens.push_back(has_tokens(operand));
    for (std::size_t i = 0; i < built.operands.size(); ++i)
      if (built.operands[i] && input_has_tokens[i])
        rows = built.operands[i].dim(0), tokens = built.operands[i].dim(1);
  }
};

// Adds the op and its inputs to a trace, with `tokens` tokens in token operands.
std::vector<Tensor> trace(const Rows& of, Trace& context, std::int64_t tokens) {
  const Op& op = ops::get(of.list.op);
  ops::DecodeCall call{op, {}, {}, nullptr, context};
  for (std::size_t i = 0; i < of.built.operands.size(); ++i) {
    call.inputs.emplace_back();
    if (!of.built.operands[i]) continue;
    Type type = of.built.operands[i].type();
    if (of.input_has_tokens[i]) type.shape[1] = tokens;
    call.inputs.back() = context.graph().add_input(op.inputs[i].name, type);
  }
  call.inputs.resize(op.inputs.size());
  for (const auto& [name, value] : of.c.attrs) call.attrs.emplace_back(name, value);
  const ops::DecodeForm& form = *ops::decode_form(op);
  ops::StateDesc state{.name = "state", .kind = form.state.value()};
  if (form.state_dims) state.dims = form.state_dims(call);
  if (form.reach) {
    const ops::Reach reach = form.reach(call);
    state.window = reach.window, state.chunk = reach.chunk, state.stride = reach.stride;
  }
  call.state = &state;
  context.remembers = !form.remembers || form.remembers(call);
  return ops::trace_op(std::move(call));
}

// Number of elements of one token in one row of a [B, T, ...] array.
std::int64_t token_size(const Type& type) {
  return type.num_elements() / std::max<std::int64_t>(type.dim(0) * type.dim(1), 1);
}
void copy_token(const Array& from, std::int64_t row, std::int64_t token, Array& to,
                std::int64_t to_token) {
  const std::int64_t size = token_size(from.type);
  for (std::int64_t i = 0; i < size; ++i)
    set(to, (row * to.type.dim(1) + to_token) * size + i,
        get(from, (row * from.type.dim(1) + token) * size + i));
}

// Position of each row, and its number of tokens in a call: rows advance at different speeds, so
// that calls are partly or wholly padding.
struct Progress {
  std::vector<std::int64_t> start, count;

  // Advances to the next call; false: all rows are finished.
  bool next(std::int64_t tokens, std::int64_t call_tokens, std::int64_t call) {
    for (std::size_t b = 0; b < start.size(); ++b) {
      start[b] += count[b];
      const std::int64_t pause = (static_cast<std::int64_t>(b) + call) % 2;
      count[b] = std::min(tokens - start[b], call_tokens - pause);
    }
    return std::ranges::any_of(start, [&](std::int64_t done) { return done < tokens; });
  }
};

Array host_value(ops::HostInput input, const Type& type, const Progress& at) {
  Array out = zeros(type);
  for (std::int64_t i = 0; i < type.num_elements(); ++i) {
    const bool per_row = type.ndim() == 1;
    const auto row = static_cast<std::size_t>(per_row ? i : i / type.dim(1));
    const std::int64_t token = per_row ? 0 : i % type.dim(1);
    switch (input) {
      case ops::HostInput::positions:
        set(out, i, static_cast<double>(at.start[row] + token));
        break;
      case ops::HostInput::segments:
        set(out, i, token < at.count[row] ? 1 : 0);
        break;
      case ops::HostInput::start:
        set(out, i, static_cast<double>(at.start[row]));
        break;
      case ops::HostInput::count:
        set(out, i, static_cast<double>(at.count[row]));
        break;
    }
  }
  return out;
}

// Returns the tokens of a call from a [B, T, ...] array; zeros for padding.
Array call_of(const Array& whole, const Type& type, const Progress& at) {
  Array out = zeros(type);
  for (std::int64_t b = 0; b < type.dim(0); ++b)
    for (std::int64_t t = 0; t < at.count[static_cast<std::size_t>(b)]; ++t)
      copy_token(whole, b, at.start[static_cast<std::size_t>(b)] + t, out, t);
  return out;
}
Array without_padding(const Array& of_call, const Progress& at) {
  return call_of(of_call, of_call.type, {std::vector(at.start.size(), std::int64_t{0}), at.count});
}

// Returns the inputs of a graph of trace(): its operands, then the inputs that it requested.
std::vector<Array> inputs_of(const Rows& of, const Trace& context, const Graph& graph,
                             const std::vector<Array>& states, const Progress& at) {
  std::vector<Array> out;
  std::size_t present = 0;
  for (std::size_t i = 0; i < of.built.operands.size(); ++i) {
    if (!of.built.operands[i]) continue;
    const Type& type = graph.type(graph.inputs()[present].value);
    const Array& whole = of.built.inputs[present++];
    out.push_back(of.input_has_tokens[i] ? call_of(whole, type, at) : whole);
  }
  for (const GraphInput& input : std::span(graph.inputs()).subspan(present)) {
    for (const auto& [role, tensor] : context.host_inputs)
      if (tensor.id == input.value) out.push_back(host_value(role, tensor.type(), at));
    for (std::size_t s = 0; s < states.size(); ++s)
      if (context.states[s].before.id == input.value) out.push_back(states[s]);
  }
  return out;
}

std::vector<Array> in_one_go(const Rows& of, const Backend& backend) {
  Trace context(of.rows, of.tokens, 0);
  add_outputs(context.graph(), trace(of, context, of.tokens));
  const auto rows = static_cast<std::size_t>(of.rows);
  const Progress at{std::vector(rows, std::int64_t{0}), std::vector(rows, of.tokens)};
  return run(context.graph(), inputs_of(of, context, context.graph(), {}, at), backend);
}

void check_calls(const Rows& of, const std::vector<Array>& want, std::int64_t call_tokens,
                 const Backend& backend) {
  SCOPED_TRACE(fmt::format("calls of {} tokens", call_tokens));
  Trace context(of.rows, of.tokens, call_tokens);
  const std::vector<Tensor> results = trace(of, context, call_tokens);
  ASSERT_EQ(context.states.empty(), !context.remembers);
  Graph& graph = context.graph();
  add_outputs(graph, results);
  std::vector<Array> states;
  for (const Trace::State& state : context.states) {
    ASSERT_TRUE(state.after) << "the state is not written";
    ASSERT_EQ(state.after.type(), state.before.type());
    graph.add_output("state", state.after);
    // At the start of a row the earlier contents must not matter.
    states.push_back(zeros(state.before.type()));
    for (std::byte& byte : states.back().bytes) byte = std::byte{0x3f};
  }
  Program program(optimized_for(backend, graph), backend);
  const std::vector<std::int64_t> none(static_cast<std::size_t>(of.rows));
  Progress at{none, none};
  for (std::int64_t call = 0; at.next(of.tokens, call_tokens, call); ++call) {
    std::vector<Array> got = run(program, backend, inputs_of(of, context, graph, states, at));
    for (std::size_t s = 0; s < states.size(); ++s) states[s] = got[results.size() + s];
    for (std::size_t r = 0; r < results.size(); ++r)
      if (of.output_has_tokens[r])
        expect_close(without_padding(got[r], at), to_doubles(call_of(want[r], got[r].type, at)),
                     4 * of.c.loosen * tolerance(got[r].type.dtype),
                     fmt::format("call {}, output {}", call, r));
  }
}

// True if a case has inputs that the host adds, which no block may set.
bool gives_host_inputs(const OpCase& c, const ops::DecodeForm& form) {
  return std::ranges::any_of(form.host, [&](const ops::HostOperand& operand) {
    const auto i = static_cast<std::size_t>(operand.input);
    return i < c.inputs.size() && !c.inputs[i].absent;
  });
}

}  // namespace

void check_decode(const OpCases& list) { check_decode(list, cpu::cpu_backend()); }

void check_decode(const OpCases& list, const Backend& backend) {
  const ops::DecodeForm* form = ops::decode_form(ops::get(list.op));
  ASSERT_NE(form, nullptr) << list.op << " has no decode form";
  int checked = 0;
  for_each(list, [&](const OpCase& c, DType dtype) {
    if (gives_host_inputs(c, *form)) return;
    const Rows of(list, c, dtype);
    if (of.rows == 0 || of.tokens == 0) return;
    const std::vector<Array> want = in_one_go(of, backend);
    for (std::int64_t call_tokens : {std::int64_t{1}, of.tokens / 2 + 1, of.tokens + 1})
      check_calls(of, want, call_tokens, backend);
    ++checked;
  });
  EXPECT_GT(checked, 0) << "no case of " << list.op << " has tokens and no input of the host";
}

}  // namespace lamina::testing
