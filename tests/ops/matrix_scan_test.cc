// Cases of matrix_scan, its gradient and its decode form, compared with loops over tokens; and the
// gated delta rule as a special case.
#include <cmath>

#include "ops/registry.h"
#include "ops/tensor.h"
#include "support/expect_error.h"
#include "support/op_cases.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

using CaseAttrs = std::vector<std::pair<std::string, AttrValue>>;
AttrValue number(std::int64_t n) { return n; }

struct Form {
  std::int64_t batch = 2, tokens = 7, heads = 4, key_width = 6, value_width = 5;
  std::int64_t q_heads = 2, change_heads = 0;  // of a and b; 0 = they are absent
  bool per_channel = false, decay_first = true, read_before = false;
  double scale = 1;
  double weakest = -0.01, strongest = -0.7;  // g
};

// The definition of the recurrence, in f64.
struct Loops {
  const Form& f;
  const std::vector<Doubles>& in;  // q k v g a b segments

  double key(std::size_t operand, std::int64_t heads, std::int64_t token, std::int64_t n,
             std::int64_t h) const {
    const std::int64_t own = n / (f.heads / heads);
    return in[operand][static_cast<std::size_t>((token * heads + own) * f.key_width + h)];
  }
  double value(std::int64_t token, std::int64_t n, std::int64_t c) const {
    return in[2][static_cast<std::size_t>((token * f.heads + n) * f.value_width + c)];
  }
  double decay(std::int64_t token, std::int64_t n, std::int64_t h) const {
    const std::int64_t at = token * f.heads + n;
    return std::exp(in[3][static_cast<std::size_t>(f.per_channel ? at * f.key_width + h : at)]);
  }
  bool fresh(std::int64_t token, std::int64_t t) const {
    if (t == 0) return true;
    if (in.size() < 7 || in[6].empty()) return false;
    return in[6][static_cast<std::size_t>(token)] != in[6][static_cast<std::size_t>(token - 1)];
  }

  std::vector<Doubles> run() const {
    Doubles y(in[2].size());
    const std::int64_t H = f.key_width, V = f.value_width;
    for (std::int64_t n = 0; n < f.heads; ++n)
      for (std::int64_t b = 0; b < f.batch; ++b) {
        Doubles state(static_cast<std::size_t>(H * V));
        for (std::int64_t t = 0; t < f.tokens; ++t) {
          const std::int64_t token = b * f.tokens + t;
          if (fresh(token, t)) std::fill(state.begin(), state.end(), 0);
          for (std::int64_t c = 0; c < V; ++c) {
            double known = 0, answer = 0;
            for (std::int64_t h = 0; f.change_heads > 0 && h < H; ++h)
              known += key(5, f.change_heads, token, n, h) *
                       state[static_cast<std::size_t>(h * V + c)] *
                       (f.decay_first ? decay(token, n, h) : 1);
            for (std::int64_t h = 0; h < H; ++h) {
              double& s = state[static_cast<std::size_t>(h * V + c)];
              const double before = s;
              s = s * decay(token, n, h) + key(1, f.q_heads, token, n, h) * value(token, n, c);
              if (f.change_heads > 0) s += key(4, f.change_heads, token, n, h) * known;
              answer += key(0, f.q_heads, token, n, h) * (f.read_before ? before : s);
            }
            y[static_cast<std::size_t>((token * f.heads + n) * V + c)] = answer * f.scale;
          }
        }
      }
    return {y};
  }
};

OpCase recurrence(std::string name, Form f, In segments = kAbsent) {
  const Shape keys{f.batch, f.tokens, f.q_heads, f.key_width};
  const Shape change{f.batch, f.tokens, f.change_heads, f.key_width};
  const Shape per_head{f.batch, f.tokens, f.heads};
  const Shape per_channel{f.batch, f.tokens, f.heads, f.key_width};
  // A change that keeps the state bounded.
  const In part = f.change_heads > 0 ? In{.shape = change, .low = -0.4, .high = 0.4} : kAbsent;
  CaseAttrs attrs;
  if (f.scale != 1) attrs.emplace_back("scale", f.scale);
  if (!f.decay_first) attrs.emplace_back("decay_first", number(0));
  if (f.read_before) attrs.emplace_back("read_before", number(1));
  return {.name = std::move(name),
          .inputs = {{.shape = keys},
                     {.shape = keys},
                     {.shape = {f.batch, f.tokens, f.heads, f.value_width}},
                     {.shape = f.per_channel ? per_channel : per_head,
                      .low = f.strongest,
                      .high = f.weakest},
                     part,
                     part,
                     std::move(segments)},
          .attrs = std::move(attrs),
          .expect =
              [f](const std::vector<Doubles>& in) {
                return Loops{f, in}.run();
              },
          .loosen = 4};
}

OpCase g_in_f32(OpCase c) {
  c.inputs[3].dtype = DType::f32;
  c.inputs[3].widens = true;
  return c;
}
OpCase large(OpCase c) {
  c.gradient = false;  // too large for finite differences
  return c;
}

In documents(std::int64_t tokens, std::vector<std::int64_t> ends) {
  std::vector<double> ids;
  for (std::int64_t t = 0, id = 1; t < tokens; ++t) {
    for (std::int64_t end : ends) id += end == t;
    ids.push_back(static_cast<double>(id));
  }
  return ints({1, tokens}, ids);
}
const In kSegments = ints({2, 7}, {1, 1, 1, 2, 2, 0, 0, 3, 4, 4, 4, 4, 5, 5});

const Form kOne = {.batch = 1, .heads = 1, .key_width = 16, .value_width = 16, .q_heads = 1};

Form with(Form f, void (*change)(Form&)) {
  change(f);
  return f;
}

// The forms of published models: docs/beyond_attention.md.
std::vector<OpCase> published() {
  return {
      recurrence("Mamba-2, RetNet: a decay per head", {}),
      recurrence("GLA: a decay per channel", {.q_heads = 4, .per_channel = true, .scale = 0.5}),
      recurrence("RWKV-6: read before", {.q_heads = 4, .per_channel = true, .read_before = true}),
      recurrence("DeltaNet: no decay",
                 {.q_heads = 4, .change_heads = 4, .weakest = 0, .strongest = 0}),
      recurrence("gated delta rule", {.change_heads = 4}),
      recurrence("KDA: both", {.q_heads = 4, .change_heads = 4, .per_channel = true}),
      recurrence("RWKV-7: change before decay",
                 {.q_heads = 4, .change_heads = 4, .per_channel = true, .decay_first = false}),
  };
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> out = published();
  const std::vector<OpCase> more = {
      recurrence("all at once", {.change_heads = 2,
                                 .per_channel = true,
                                 .decay_first = false,
                                 .read_before = true,
                                 .scale = 0.25}),
      g_in_f32(recurrence("decay in f32", {.change_heads = 1})),
      recurrence("one token", {.tokens = 1, .change_heads = 4, .per_channel = true}),
      recurrence("a chunk", with(kOne, [](Form& f) { f.tokens = 16; })),
      recurrence("a chunk and one", with(kOne,
                                         [](Form& f) {
                                           f.tokens = 17;
                                           f.change_heads = 1;
                                           f.per_channel = true;
                                         })),
      recurrence("chunks", {.batch = 1,
                            .tokens = 50,
                            .heads = 3,
                            .key_width = 33,
                            .value_width = 40,
                            .q_heads = 1,
                            .change_heads = 3,
                            .per_channel = true}),
      large(recurrence("chunks that hardly forget", {.batch = 1,
                                                     .tokens = 130,
                                                     .key_width = 16,
                                                     .value_width = 17,
                                                     .per_channel = true,
                                                     .weakest = 0,
                                                     .strongest = -0.01})),
      recurrence("decays to nothing", {.tokens = 20,
                                       .q_heads = 4,
                                       .change_heads = 4,
                                       .per_channel = true,
                                       .weakest = 0,
                                       .strongest = -300}),
      recurrence("decays to nothing, per head",
                 {.tokens = 20, .change_heads = 4, .weakest = 0, .strongest = -300}),
      recurrence("segments", {.change_heads = 4, .per_channel = true}, kSegments),
      recurrence("segments, read before",
                 {.change_heads = 4, .decay_first = false, .read_before = true}, kSegments),
      recurrence("documents and chunks",
                 {.batch = 1, .tokens = 60, .heads = 2, .q_heads = 1, .change_heads = 2},
                 documents(60, {3, 19, 20, 52})),
      recurrence("no tokens", {.tokens = 0, .change_heads = 4}),
      recurrence("no rows", {.batch = 0}),
  };
  out.insert(out.end(), more.begin(), more.end());
  return out;
}
const OpCases kCases = {.op = "matrix_scan", .cases = all_cases()};

OpCases gradient_cases() {
  OpCases out{.op = "matrix_scan_grad", .cases = kCases.cases};
  for (OpCase& c : out.cases) {
    c.inputs.push_back({.shape = c.inputs[2].shape});
    c.expect = {};
    c.gradient = false;
    c.sums_rounded = true;
  }
  return out;
}
const OpCases kGrad = gradient_cases();

OpCases step_cases() {
  auto step = [](std::string name, Form f, In start, In count) {
    OpCase c = recurrence(std::move(name), f);
    c.inputs.pop_back();
    c.inputs.insert(c.inputs.end(), {std::move(start),
                                     std::move(count),
                                     {.shape = {f.batch, f.heads, f.key_width, f.value_width},
                                      .dtype = DType::f32,
                                      .widens = true}});
    c.expect = {};
    c.gradient = false;
    c.sums_rounded = true;
    return c;
  };
  const In started = ints({2}, {0, 9});
  const Form full = {.change_heads = 4, .per_channel = true};
  auto of = [&](std::int64_t tokens) {
    Form f = full;
    f.tokens = tokens;
    return f;
  };
  return {.op = "matrix_scan_step",
          .cases = {
              step("one token", of(1), started, ints({2}, {1, 1})),
              step("one token, decay only", {.tokens = 1}, started, ints({2}, {1, 1})),
              step("one token, read before", {.tokens = 1, .read_before = true}, started,
                   ints({2}, {1, 1})),
              step("one token, change before decay",
                   {.tokens = 1, .change_heads = 2, .decay_first = false, .read_before = true},
                   started, ints({2}, {1, 1})),
              step("wide values", {.tokens = 1, .value_width = 150, .change_heads = 4}, started,
                   ints({2}, {1, 1})),
              step("nothing new", of(1), started, ints({2}, {0, 0})),
              step("three tokens", of(3), started, ints({2}, {3, 2})),
              step("chunks", of(40), started, ints({2}, {40, 36})),
              step("chunks of padding", of(40), started, ints({2}, {0, 1})),
              step("no tokens", of(0), started, ints({2}, {0, 0})),
          }};
}
const OpCases kStep = step_cases();

LAMINA_TEST_OP(MatrixScan, kCases)
LAMINA_TEST_DECODE(MatrixScan, kCases)
LAMINA_TEST_OP(MatrixScanGrad, kGrad)
LAMINA_TEST_OP(MatrixScanStep, kStep)

// q, k, v, g and beta of the gated delta rule, and both ways to compute it.
TEST(MatrixScan, WithADeltaTermIsTheGatedDeltaRule) {
  constexpr std::int64_t kTokens = 150, kHeads = 4, kWidth = 16, kValues = 20;
  const Type keys{DType::f32, {1, kTokens, 2, kWidth}, {}};
  const Type numbers{DType::f32, {1, kTokens, kHeads}, {}};
  std::mt19937 random(3);
  const std::vector<Array> inputs = {
      random_array(keys, random, -0.4, 0.4), random_array(keys, random, -0.4, 0.4),
      random_array({DType::f32, {1, kTokens, kHeads, kValues}, {}}, random),
      random_array(numbers, random, -0.2, -0.01), random_array(numbers, random, 0.1, 1)};
  Graph graph;
  std::vector<Tensor> in;
  for (const Array& a : inputs) in.push_back(graph.add_input("in", a.type));
  const Tensor q = in[0], k = in[1], v = in[2], g = in[3];
  const Tensor beta = ops::reshape(in[4], {1, kTokens, kHeads, 1});
  Tensor wide_k = ops::broadcast(ops::reshape(k, {1, kTokens, 2, 1, kWidth}),
                                 {1, kTokens, 2, kHeads / 2, kWidth});
  wide_k = ops::reshape(wide_k, {1, kTokens, kHeads, kWidth}) * beta;
  Tensor scanned =
      ops::matrix_scan({.q = q, .k = wide_k, .v = v, .g = g, .a = -wide_k, .b = k}, {.scale = 0.5});
  graph.add_output("rule", ops::call("gated_delta_rule", {q, k, v, g, in[4]}, {{"scale", 0.5}}));
  graph.add_output("scan", scanned);
  const std::vector<Array> got = run(graph, inputs);
  for (std::int64_t i = 0; i < got[0].type.num_elements(); ++i)
    ASSERT_NEAR(get(got[1], i), get(got[0], i), 2e-6) << "element " << i;
}

TEST(MatrixScan, RefusesOperandsThatDoNotGoTogether) {
  Graph g;
  auto input = [&](Shape shape) { return g.add_input("in", {DType::f32, shape, {}}); };
  Tensor v = input({1, 3, 4, 5}), n = input({1, 3, 4}), k = input({1, 3, 4, 6});
  Tensor three = input({1, 3, 3, 6}), narrow = input({1, 3, 4, 2});
  auto refuses = [&](std::vector<Tensor> operands, const char* words) {
    EXPECT_ERROR_SAYS(ops::call_all("matrix_scan", operands), ExitCode::usage, words);
  };
  refuses({three, k, v, n}, "4 value heads are not a multiple of the 3 heads of q");
  refuses({k, narrow, v, n}, "k has keys of width 2 and q of width 6");
  refuses({k, k, v, narrow}, "g must be [1, 3, 4] or [1, 3, 4, 6], got f32[1, 3, 4, 2]");
  refuses({k, k, v, n, k}, "a is given without b; give both or neither");
}

}  // namespace
}  // namespace lamina::testing
