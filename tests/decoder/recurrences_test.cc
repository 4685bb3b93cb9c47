// A recurrence written per token gives the same model as its op; and invalid regions over time.
#include <gtest/gtest.h>

#include "decoder/one_block_family.h"
#include "inspect/cost/required_work.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

decoder::Model model_of(const std::string& recurrence) {
  return open_description(
      "family = \"recurrences\"\n[model]\nvocab_size = 61\nhidden_size = 24\n"
      "num_hidden_layers = 3\nrecurrence = \"" +
      recurrence + "\"\n");
}

// Two packed rows through both, with the same weights.
void expect_same(const std::string& op, const std::string& by_token) {
  const decoder::Model a = model_of(op), b = model_of(by_token);
  const TestModel from{op, LAMINA_SOURCE_DIR "/tests/support/models/recurrences_" + op + ".toml"};
  const weights::Weights weights = load_weights(from, a);
  const Rows rows = pack({random_rows(a, 1, 11, 5), random_rows(a, 1, 20, 6)}, 33);
  EXPECT_LE(relative_difference(forward(b, weights.pointers(), rows),
                                forward(a, weights.pointers(), rows)),
            2e-6);
}

// No op of the body stays in the block's graph, where its cost would be counted twice.
TEST(TimeRegion, HasItsOpsInTheScanOnly) {
  const decoder::Model model = model_of("lstm");
  const double by_rows =
      inspect::required_flops(model.forward_graph({.batch = 1, .tokens = 64}).graph) / 64;
  const double by_token = inspect::required_flops(
      model.decode_graph({.batch = 1, .tokens = 1}, {.capacity = 64}).graph);
  EXPECT_NEAR(by_rows, by_token, 0.01 * by_token);
}

TEST(TimeRegion, ALinearRecurrenceEqualsTheLinearScan) { expect_same("linear", "linear_by_token"); }
TEST(TimeRegion, AMatrixRecurrenceEqualsTheMatrixScan) { expect_same("matrix", "matrix_by_token"); }

}  // namespace
}  // namespace lamina::testing

namespace lamina::decoder {
namespace {

using sdk::Tensor;
using sdk::Tensors;
using sdk::TokenResults;

#define EXPECT_REFUSED(words, ...) \
  EXPECT_ERROR_SAYS(open_family_with(LAMINA_BLOCK(__VA_ARGS__)), ExitCode::plugin, words)

// A sum of x over time, with additional code in its body.
template <class Body>
Tensor summed(const sdk::Step& step, Tensor x, const Body& body) {
  return step.scan_tokens({.carries = {{"sum", {x.dim(2)}}}, .inputs = {x}},
                          [&](const Tensors& carries, const Tensors& tokens) -> TokenResults {
                            Tensor sum = carries[0] + sdk::widen(tokens[0]);
                            return body(sum, tokens[0]);
                          })[0];
}

TEST(TimeRegion, AcceptsABodyPerToken) {
  EXPECT_NO_THROW(open_family_with(LAMINA_BLOCK({
    return summed(step, x, [&](Tensor sum, Tensor) -> TokenResults {
      Tensor gain = s.param("gain", {4}, {.axes = {sdk::axis::norm}});
      return {.carries = {sum}, .results = {sum * gain}};
    });
  })));
}

TEST(TimeRegion, RefusesOpsThatKeepDecodeStateInItsBody) {
  EXPECT_REFUSED("linear_scan: is in the body of a region over time", {
    return summed(step, x, [&](Tensor sum, Tensor) -> TokenResults {
      step.linear_scan(x, x);
      return {.carries = {sum}, .results = {sum}};
    });
  });
}

TEST(TimeRegion, RefusesARegionInARegion) {
  EXPECT_REFUSED("another region over time is not allowed in the body of a region over time", {
    return summed(step, x, [&](Tensor sum, Tensor) -> TokenResults {
      step.scan_tokens({.carries = {{"inner", {4}}}, .inputs = {x}},
                       [](const Tensors& carries, const Tensors&) -> TokenResults {
                         return {.carries = carries, .results = {}};
                       });
      return {.carries = {sum}, .results = {sum}};
    });
  });
}

TEST(TimeRegion, RefusesACarryThatChangesItsShape) {
  EXPECT_REFUSED(
      "a region over time: has the carry 'sum' as f32[1, 4] before a token and as f32[1, 8] after",
      {
        return summed(step, x, [&](Tensor sum, Tensor) -> TokenResults {
          return {.carries = {sdk::concat({sum, sum}, 1)}, .results = {sum}};
        });
      });
}

TEST(TimeRegion, RefusesAnotherNumberOfCarries) {
  EXPECT_REFUSED("a region over time: gives 0 carries; it has 1 states", {
    return summed(step, x, [&](Tensor sum, Tensor) -> TokenResults {
      return {.carries = {}, .results = {sum}};
    });
  });
}

TEST(TimeRegion, RefusesInputsWithoutTokens) {
  EXPECT_REFUSED("a region over time: has no inputs; it has at least one, which is of tokens", {
    step.scan_tokens({}, [](const Tensors&, const Tensors&) -> TokenResults { return {}; });
    return x;
  });
  EXPECT_REFUSED(
      "a region over time: has the input f32[4]; its inputs are of tokens, [1, 1, ...]", {
        Tensor w = s.param("w", {4}, {.axes = {sdk::axis::norm}});
        step.scan_tokens({.carries = {}, .inputs = {w}},
                         [](const Tensors&, const Tensors&) -> TokenResults { return {}; });
        return x;
      });
}

TEST(TimeRegion, RefusesValuesOfTheBodyOutsideOfIt) {
  EXPECT_REFUSED("input 'b' of op 'add' is a value of the body of a region over time", {
    Tensor leaked;
    Tensor y = summed(step, x, [&](Tensor sum, Tensor) -> TokenResults {
      leaked = sum;
      return {.carries = {sum}, .results = {sum}};
    });
    return y + leaked;
  });
}

TEST(TimeRegion, RefusesABodyThatSeesAllTokens) {
  EXPECT_REFUSED("scan reads f32[2, 3, 4] of all tokens, in the body of a region over time", {
    return summed(step, x, [&](Tensor sum, Tensor) -> TokenResults {
      Tensor all = sdk::reduce_sum(x, {.dims = {1}});
      return {.carries = {sum}, .results = {sum + all}};
    });
  });
}

TEST(TimeRegion, RefusesABodyThatMixesRows) {
  EXPECT_REFUSED("scan runs reduce_sum, which combines tokens, along dim 0 of x f32[2, 4]", {
    return summed(step, x, [&](Tensor sum, Tensor) -> TokenResults {
      return {.carries = {sum},
              .results = {sum + sdk::reduce_sum(sum, {.dims = {0}, .keep = true})}};
    });
  });
}

// Direct calls of ext/time_region.h, with one carry and the input x.
struct RawRegion {
  lamina_build_t* build;
  lamina_state_t state;
  lamina_tensor_t input, carry = 0, token = 0, output = 0;

  static const lamina_time_region_api_t& api() {
    return sdk::extension<lamina_time_region_api_t>(LAMINA_TIME_REGION_ID);
  }
  void begin() {
    lamina_time_region_t region{};
    region.size = sizeof region;
    region.states = {&state, 1, sizeof state};
    region.inputs = {&input, 1, sizeof input};
    region.carries = &carry;
    region.tokens = &token;
    sdk::check(api().begin(build, &region, nullptr));
  }
  void end(lamina_tensor_t* to) {
    lamina_time_results_t results{};
    results.size = sizeof results;
    results.carries = {&carry, 1, sizeof carry};
    results.results = {&token, 1, sizeof token};
    results.outputs = to;
    sdk::check(api().end(build, &results, nullptr));
  }
};
RawRegion raw_region(sdk::Scope s, Tensor x, std::uint32_t kind) {
  return {s.build(), s.state(kind, "kept", {4}, {.axes = {sdk::axis::none}}).handle, x.handle};
}

TEST(TimeRegion, RefusesCallsOutOfTurn) {
  EXPECT_REFUSED("a region over time ends, but none is open", {
    raw_region(s, x, LAMINA_STATE_CUSTOM).end(nullptr);
    return x;
  });
  EXPECT_REFUSED("its build leaves a region over time open; every begin needs an end", {
    raw_region(s, x, LAMINA_STATE_CUSTOM).begin();
    return x;
  });
  EXPECT_REFUSED("the pointer for the outputs of a region is null", {
    RawRegion region = raw_region(s, x, LAMINA_STATE_CUSTOM);
    region.begin();
    region.end(nullptr);
    return x;
  });
}

TEST(TimeRegion, RefusesStatesThatAreNotItsOwn) {
  EXPECT_REFUSED("state 'kept' has kind recurrent; states of a region over time must have kind", {
    raw_region(s, x, LAMINA_STATE_RECURRENT).begin();
    return x;
  });
  EXPECT_REFUSED(
      "state 'kept' is given to regions over time twice; every carry needs a separate "
      "state",
      {
        RawRegion region = raw_region(s, x, LAMINA_STATE_CUSTOM);
        region.begin();
        region.end(&region.output);
        region.begin();
        return x;
      });
}

TEST(TimeRegion, HasEveryStateOfItsKind) {
  EXPECT_REFUSED(
      "its build declares the state 'kept' of kind custom, which no region over time uses", {
        raw_region(s, x, LAMINA_STATE_CUSTOM);
        return x;
      });
}

TEST(TimeRegion, RefusesLossesInItsBody) {
  EXPECT_REFUSED("a loss or metric is not allowed in the body of a region over time", {
    return summed(step, x, [&](Tensor sum, Tensor) -> TokenResults {
      step.metric("sum", sum);
      return {.carries = {sum}, .results = {sum}};
    });
  });
}

}  // namespace
}  // namespace lamina::decoder
