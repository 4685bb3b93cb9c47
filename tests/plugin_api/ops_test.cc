// The SDK has a wrapper for every op that plugins may use, with the attributes of ops.def.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <sstream>

#include "lamina/sdk.h"
#include "plugin_api/recorder.h"

namespace lamina::testing {
namespace {

using namespace sdk;

// `plain` calls the wrapper with required arguments only, null if that emits nothing; `full` also
// gives every attribute.
struct Case {
  std::string op;
  std::function<void(Tensor x, Scope s)> plain;
  std::function<void(Tensor x, Scope s)> full;
};

Case same(std::string op, std::function<void(Tensor x, Scope s)> call) {
  return {std::move(op), call, call};
}

// Includes the unary ops, whose functions ops.h makes from their rows.
template <typename X>
std::vector<Case> with_unary(std::vector<Case> list) {
#define LAMINA_OP(id, name, revision, since, inputs, outputs, attributes, doc) \
  if constexpr (is_unary(inputs, outputs, attributes))                         \
    list.push_back(same(#name, [](X x, Scope) { name(x); }));
#include "lamina/ops.def"
  return list;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = with_unary<Tensor>({
      same("add", [](Tensor x, Scope) { x + x; }),
      same("sub", [](Tensor x, Scope) { x - x; }),
      same("mul", [](Tensor x, Scope) { x* x; }),
      same("div", [](Tensor x, Scope) { x / x; }),
      same("maximum", [](Tensor x, Scope) { maximum(x, x); }),
      same("minimum", [](Tensor x, Scope) { minimum(x, x); }),
      same("less", [](Tensor x, Scope) { less(x, x); }),
      same("equal", [](Tensor x, Scope) { equal(x, x); }),
      same("less_equal", [](Tensor x, Scope) { less_equal(x, x); }),
      same("not_equal", [](Tensor x, Scope) { not_equal(x, x); }),
      same("pow", [](Tensor x, Scope) { pow(x, x); }),
      same("remainder", [](Tensor x, Scope) { remainder(x, x); }),
      same("logical_and", [](Tensor x, Scope) { logical_and(x, x); }),
      same("logical_or", [](Tensor x, Scope) { logical_or(x, x); }),
      same("bit_and", [](Tensor x, Scope) { bit_and(x, x); }),
      same("bit_or", [](Tensor x, Scope) { bit_or(x, x); }),
      same("bit_xor", [](Tensor x, Scope) { bit_xor(x, x); }),
      same("shift_left", [](Tensor x, Scope) { shift_left(x, x); }),
      same("shift_right", [](Tensor x, Scope) { shift_right(x, x); }),
      same("cast_like", [](Tensor x, Scope) { cast_like(x, x); }),
      same("random", [](Tensor, Scope s) { random(s, {7}); }),
      {"dim_size", [](Tensor x, Scope) { dim_size(x, 0); },
       [](Tensor x, Scope) { dim_size(x, 1); }},
      {"constant_data", [](Tensor, Scope s) { constant_data(s, {}); },
       [](Tensor, Scope s) { constant_data(s, {.shape = {1}, .dtype = "i32", .values = {7}}); }},
      {"gather", [](Tensor x, Scope) { gather(x, x, 0); },
       [](Tensor x, Scope) { gather(x, x, 1); }},
      {"scatter", [](Tensor x, Scope) { scatter(x, x, {}); },
       [](Tensor x, Scope) { scatter(x, x, {.dim = 1, .size = 2}); }},
      {"reduce_mean", [](Tensor x, Scope) { reduce_mean(x, {.dims = {1}}); },
       [](Tensor x, Scope) { reduce_mean(x, {.dims = {1}, .keep = true, .dtype = "f32"}); }},
      {"reduce_min", [](Tensor x, Scope) { reduce_min(x, {.dims = {1}}); },
       [](Tensor x, Scope) { reduce_min(x, {.dims = {1}, .keep = true}); }},
      {"logsumexp", [](Tensor x, Scope) { logsumexp(x, {.dims = {1}}); },
       [](Tensor x, Scope) { logsumexp(x, {.dims = {1}, .keep = true}); }},
      {"cumsum", [](Tensor x, Scope) { cumsum(x, {}); },
       [](Tensor x, Scope) { cumsum(x, {.dim = 1, .exclusive = true, .reverse = true}); }},
      {"argsort", [](Tensor x, Scope) { argsort(x); }, [](Tensor x, Scope) { argsort(x, true); }},
      same("select", [](Tensor x, Scope) { select(x, x, x); }),
      same("linear", [](Tensor x, Scope) { linear(x, x, x); }),
      same("embedding", [](Tensor x, Scope) { embedding(x, x); }),
      {"scale", [](Tensor x, Scope) { scale(x, 1); }, [](Tensor x, Scope) { x * 3.0; }},
      {"shift", [](Tensor x, Scope) { shift(x, 0); }, [](Tensor x, Scope) { x + 3.0; }},
      same("cast", [](Tensor x, Scope) { cast(x, "bf16"); }),
      same("reshape", [](Tensor x, Scope) { reshape(x, {7}); }),
      same("transpose",
           [](Tensor x, Scope) {
             transpose(x, {1, 0});
           }),
      {"slice", [](Tensor x, Scope) { slice(x, {}); },
       [](Tensor x, Scope) { slice(x, {.dim = 1, .start = 2, .size = 3}); }},
      {"concat",
       [](Tensor x, Scope) {
         concat({x, x}, 0);
       },
       [](Tensor x, Scope) {
         concat({x, x}, 1);
       }},
      same("broadcast", [](Tensor x, Scope) { broadcast(x, {7}); }),
      {"constant", [](Tensor, Scope s) { constant(s, {.shape = {7}}); },
       [](Tensor, Scope s) { constant(s, {.shape = {7}, .dtype = "i32", .value = 2}); }},
      {"iota", [](Tensor, Scope s) { iota(s, {.shape = {7}}); },
       [](Tensor, Scope s) { iota(s, {.shape = {7}, .dtype = "f32", .dim = 1}); }},
      {"pad", [](Tensor x, Scope) { pad(x, {}); },
       [](Tensor x, Scope) { pad(x, {.dim = 1, .before = 2, .after = 3}); }},
      {"reduce_sum", [](Tensor x, Scope) { reduce_sum(x, {.dims = {1}}); },
       [](Tensor x, Scope) { reduce_sum(x, {.dims = {1}, .keep = true, .dtype = "f32"}); }},
      {"reduce_max", [](Tensor x, Scope) { reduce_max(x, {.dims = {1}}); },
       [](Tensor x, Scope) { reduce_max(x, {.dims = {1}, .keep = true}); }},
      {"matmul", [](Tensor x, Scope) { matmul(x, x); },
       [](Tensor x, Scope) {
         matmul(x, x, {.transpose_a = true, .transpose_b = true, .dtype = "f32"}, x);
       }},
      {"top_k", [](Tensor x, Scope) { top_k(x, {}); }, [](Tensor x, Scope) { top_k(x, {.k = 2}); }},
      same("take_along", [](Tensor x, Scope) { take_along(x, x); }),
      {"scatter_along", [](Tensor x, Scope) { scatter_along(x, x, 0); },
       [](Tensor x, Scope) { scatter_along(x, x, 7); }},
      {"group_rows", [](Tensor x, Scope) { group_rows(x, {}); },
       [](Tensor x, Scope) { group_rows(x, {.groups = 2, .capacity_factor = 3}); }},
      {"gather_rows", [](Tensor x, Scope) { gather_rows(x, x, 1); },
       [](Tensor x, Scope) { gather_rows(x, x, 2); }},
      same("combine_rows", [](Tensor x, Scope) { combine_rows(x, x, x); }),
      {"top_k_mask", [](Tensor x, Scope) { top_k_mask(x, 1); },
       [](Tensor x, Scope) { top_k_mask(x, 3, false); }},
      {"attention_mass", [](Tensor x, Scope) { attention_mass(x, x, x); },
       [](Tensor x, Scope) { attention_mass(x, x, x, 2); }},
      same("grouped_linear", [](Tensor x, Scope) { grouped_linear(x, x, x, x); }),
      {"rms_norm", [](Tensor x, Scope) { rms_norm(x, x); },
       [](Tensor x, Scope) { rms_norm(x, x, {.eps = 1, .offset = 1}); }},
      {"layer_norm", [](Tensor x, Scope) { layer_norm(x, x, x); },
       [](Tensor x, Scope) { layer_norm(x, x, x, {.eps = 1, .offset = 1}); }},
      {"rope", [](Tensor x, Scope) { rope(x, x); },
       [](Tensor x, Scope) {
         rope(x, x,
              {.theta = 1,
               .rotary_dim = 2,
               .interleaved = true,
               .scaling = "yarn",
               .factor = 3,
               .low_freq_factor = 5,
               .high_freq_factor = 6,
               .original_max_positions = 7,
               .beta_fast = 8,
               .beta_slow = 9,
               .attention_factor = 10,
               .mscale = 11,
               .mscale_all_dim = 12,
               .truncate = false,
               .max_positions = 13,
               .frequency_dim = 14,
               .mrope_section = {1, 2, 3},
               .mrope_interleaved = true,
               .short_factor = {14},
               .long_factor = {15},
               .frequencies = x});
       }},
      {"attention", [](Tensor x, Scope) { attention(x, x, x, {}); },
       [](Tensor x, Scope) {
         attention(x, x, x, {},
                   {.scale = 2, .soft_cap = 3, .causal = false, .window = 4, .chunk = 5},
                   {.sinks = x, .mask = x, .blocks = x, .slopes = x, .bias = x});
       }},
      {"moba_mask", [](Tensor x, Scope) { moba_mask(x, x, {}, {}); },
       [](Tensor x, Scope) { moba_mask(x, x, {}, {.chunk = 2, .k = 3}); }},
      {"causal_conv1d", [](Tensor x, Scope) { causal_conv1d(x, x, x, {}); },
       [](Tensor x, Scope) {
         causal_conv1d(x, x, x, {}, {.dilation = 2, .activation = "silu", .across = true});
       }},
      {"gated_delta_rule", [](Tensor x, Scope) { gated_delta_rule(x, x, x, x, x, {}); },
       [](Tensor x, Scope) {
         gated_delta_rule(x, x, x, x, x, {}, {.scale = 2, .normalize = true, .across = true});
       }},
      same("linear_scan", [](Tensor x, Scope) { linear_scan(x, x, {}); }),
      {"matrix_scan", [](Tensor x, Scope) { matrix_scan(x, x, x, x, {}, {}); },
       [](Tensor x, Scope) {
         matrix_scan(x, x, x, x, {x, x}, {},
                     {.scale = 2, .decay_first = false, .read_before = true});
       }},
      {"latent_attention", [](Tensor x, Scope s) { Step(s).latent_attention(x, x, x, x); },
       [](Tensor x, Scope s) {
         Step(s).latent_attention(x, x, x, x, {.nope_dim = 2, .scale = 3, .causal = false});
       }},
      same("index_scores", [](Tensor x, Scope s) { Step(s).index_scores(x, x, x); }),
      {"window_ends", [](Tensor x, Scope) { window_ends(x, 1); },
       [](Tensor x, Scope) { window_ends(x, 2); }},
      {"window_pool",
       [](Tensor x, Scope) {
         window_pool(x, x, x, {1, x, x}, false, {});
       },
       [](Tensor x, Scope) {
         window_pool(x, x, x, {2, x, x}, true, {});
       }},
      {"compressed_attention",
       [](Tensor x, Scope) {
         compressed_attention(x, x, x, {1, x, x}, x, {}, {}, x, x);
       },
       [](Tensor x, Scope) {
         compressed_attention(x, x, x, {2, x, x}, x, {.window = 3, .k = 4, .scale = 5}, {}, x, x);
       }},
      {"sinkhorn", [](Tensor x, Scope) { sinkhorn(x); },
       [](Tensor x, Scope) { sinkhorn(x, {.iterations = 3, .eps = 1}); }},
      {"glu", [](Tensor x, Scope) { glu(x, x); },
       [](Tensor x, Scope) { glu(x, x, {.activation = "gelu"}); }},
      {"soft_cap", [](Tensor x, Scope) { soft_cap(x, 0); },
       [](Tensor x, Scope) { soft_cap(x, 30); }},
      {"dropout", nullptr, [](Tensor x, Scope) { dropout(x, 0.1); }},
  });
  return all;
}

struct Attribute {
  std::string name;
  AttrRow row;
};

std::vector<Attribute> attributes_of(const OpRow& op) {
  std::vector<Attribute> rows;
  std::istringstream words{std::string(op.attributes)};
  for (std::string word; words >> word;) {
    const std::string name = word.substr(0, word.find(':'));
    rows.push_back({name, find_attr(op.attributes, name)});
    EXPECT_EQ(rows.back().row.key, rows.size());
  }
  return rows;
}

const OpRow& row_named(const std::string& name) {
  for (const OpRow& row : kOpRows)
    if (row.name == name) return row;
  throw std::runtime_error("ops.def has no op " + name);
}

Emission emission_of(const std::function<void(Tensor, Scope)>& call) {
  RecordingBuild build(8);
  call(Tensor{&build, 1}, Scope(&build, 0.02));
  EXPECT_EQ(build.emissions.size(), 1u);
  return build.emissions.empty() ? Emission{} : build.emissions.front();
}

// Returns a LAMINA_KIND_*, which have the order of Value.
std::uint32_t kind_of_value(const Value& value) {
  return static_cast<std::uint32_t>(value.index());
}

TEST(SdkOps, CoverEveryPublicOp) {
  for (const OpRow& row : kOpRows)
    EXPECT_TRUE(std::any_of(cases().begin(), cases().end(),
                            [&](const Case& c) { return c.op == row.name; }))
        << row.name << " of ops.def has no wrapper in lamina/sdk/ops.h, or no case here";
}

TEST(SdkOps, EmitTheOpOfTheirName) {
  for (const Case& c : cases()) {
    const OpRow& row = row_named(c.op);
    const Emission e = emission_of(c.full);
    EXPECT_EQ(e.op, row.id) << c.op;
    EXPECT_EQ(e.revision, row.revision) << c.op;
    EXPECT_EQ(e.outputs, count_words(row.outputs)) << c.op;
    EXPECT_LE(e.inputs.size(), count_words(row.inputs) + (c.op == "concat")) << c.op;
  }
}

TEST(SdkOps, SetEveryAttributeOfOpsDef) {
  for (const Case& c : cases()) {
    const Emission e = emission_of(c.full);
    const std::vector<Attribute> attributes = attributes_of(row_named(c.op));
    EXPECT_EQ(e.attrs.size(), attributes.size()) << c.op;
    for (const Attribute& attribute : attributes) {
      ASSERT_TRUE(e.attrs.contains(attribute.row.key))
          << c.op << " cannot set '" << attribute.name << "'";
      EXPECT_EQ(kind_of_value(e.attrs.at(attribute.row.key)), attribute.row.kind)
          << c.op << " " << attribute.name;
    }
  }
}

// So options must have the defaults of ops.def, and older hosts get no unknown attributes.
TEST(SdkOps, LeaveOutAttributesThatHaveTheirDefault) {
  for (const Case& c : cases()) {
    if (!c.plain) continue;
    const Emission plain = emission_of(c.plain);
    for (const Attribute& attribute : attributes_of(row_named(c.op)))
      if (!plain.attrs.contains(attribute.row.key))
        EXPECT_TRUE(attribute.row.has_fallback) << c.op << " " << attribute.name;
      else if (attribute.row.has_fallback && attribute.row.kind != LAMINA_KIND_INT_LIST)
        ADD_FAILURE() << c.op << " sends " << attribute.name << " when it is not asked for";
  }
}

TEST(SdkOps, LeaveOutAbsentInputsAtTheEnd) {
  const Emission e = emission_of([](Tensor x, Scope) { attention(x, x, x, {}, {}, {.mask = x}); });
  EXPECT_EQ(e.inputs, (std::vector<lamina_tensor_t>{1, 1, 1, 0, 1}));
}

TEST(OpRows, NumbersAreReadAsTheCompilerReadsThem) {
  static_assert(parse_number("1e-6") == 1e-6 && parse_number("10000") == 10000 &&
                parse_number("0.5") == 0.5 && parse_number("-1.25e3") == -1250 &&
                parse_number("1e-20") == 1e-20 && parse_number("0.1") == 0.1);
  static_assert(parse_integer("-3") == -3);
}

TEST(OpRows, RecordTheVersionOfLaterMembers) {
  static_assert(count_words("a b? c?@2 d?@3") == 4 && count_words("a b? c?@2 d?@3", 2) == 3 &&
                count_words("a b? c?@2 d?@3", 0) == 2 && count_words("") == 0);
  static_assert(since_of(word_at("a b? c?@2", 2)) == 2);
  constexpr AttrRow later = find_attr("eps:f=1e-6 mode:s=none@7", "mode");
  static_assert(later.key == 2 && later.since == 7 && later.fallback == "none");
  static_assert(find_attr("eps:f=1e-6", "ep").key == 0);
}

TEST(SdkOps, GiveEachAttributeItsOwnValue) {
  const Emission e = emission_of(
      [](Tensor x, Scope) { rope(x, x, {.theta = 5e5, .scaling = "llama3", .factor = 8}); });
  EXPECT_EQ(std::get<double>(e.attrs.at(1)), 5e5);
  EXPECT_EQ(std::get<std::string>(e.attrs.at(4)), "llama3");
  EXPECT_EQ(std::get<double>(e.attrs.at(5)), 8);
}

TEST(SdkOps, MinusIsNeg) {
  const Emission e = emission_of([](Tensor x, Scope) { -x; });
  EXPECT_EQ(e.op, row_of(Op::neg).id);
}

TEST(SdkOps, ANumberLessATensorIsAShiftOfItsNegation) {
  RecordingBuild build(8);
  1 - Tensor{&build, 1};
  ASSERT_EQ(build.emissions.size(), 2u);
  EXPECT_EQ(build.emissions[0].op, row_of(Op::neg).id);
  EXPECT_EQ(std::get<double>(build.emissions[1].attrs.at(1)), 1);
}

TEST(SdkOps, AssigningOperatorsAreOpsOfBothSides) {
  RecordingBuild build(8);
  Tensor x{&build, 1};
  x += x * x;
  ASSERT_EQ(build.emissions.size(), 2u);
  EXPECT_EQ(build.emissions[1].op, row_of(Op::add).id);
  EXPECT_EQ(build.emissions[1].inputs, (std::vector<lamina_tensor_t>{1, 2}));
  EXPECT_EQ(x.handle, 3u);
}

// The buckets of transformers' T5Attention: few distances before max_distance, so buckets are left
// out there.
TEST(SdkPositionBias, DistancesFromTheLongestOnShareTheLastBucket) {
  RecordingBuild build(8);
  relative_bias(Scope(&build, 0.02), 2, {.buckets = 32, .max_distance = 20});
  ASSERT_FALSE(build.emissions.empty());
  const Emission& ids = build.emissions.front();
  ASSERT_EQ(ids.op, row_of(Op::constant_data).id);
  const auto buckets = std::get<std::vector<double>>(ids.attrs.at(3));
  ASSERT_EQ(buckets.size(), 21u);
  EXPECT_EQ(std::vector(buckets.begin() + 15, buckets.end()),
            (std::vector<double>{15, 16, 20, 24, 28, 31}));
}

TEST(SdkStep, NamesStatesByTheScopeItIsIn) {
  RecordingBuild build(8);
  const Scope s(&build, 0.02);
  const Step step(s);
  const Tensor x{&build, build.add_tensor({1, 3, 8})};
  step.in(s / "first").linear_scan(x, x);
  step.in(s / "second").linear_scan(x, x);
  ASSERT_EQ(build.states.size(), 2u);
  EXPECT_EQ(build.states[0].name, "first.recurrent");
  EXPECT_EQ(build.states[1].name, "second.recurrent");
}

TEST(SdkOps, OperatorsKnowTheLineThatUsedThem) {
  RecordingBuild build(8);
  const Tensor x{&build, 1};
  x + x * 2.0;
  const std::uint32_t line = __LINE__ - 1;
  ASSERT_EQ(build.emissions.size(), 2u);
  for (const Emission& e : build.emissions) {
    EXPECT_EQ(e.line, line);
    EXPECT_NE(e.file.find("ops_test.cc"), std::string::npos);
  }
}

TEST(SdkOps, RefusedOpIsReportedOnceByTheHost) {
  RecordingBuild build(8);
  build.refuse_emissions = true;
  const lamina_status_t status = guarded(&build, [&] { silu(Tensor{&build, 1}); });
  EXPECT_EQ(status, LAMINA_ERROR_SHAPE);
  EXPECT_EQ(build.message, "");
}

TEST(SdkOps, EmptyInputsAreAnErrorNotACrash) {
  RecordingBuild build(8);
  EXPECT_EQ(guarded(&build, [&] { silu(Tensor{}); }), LAMINA_ERROR_ARGUMENT);
  EXPECT_EQ(build.message, "silu: all its inputs are empty tensors");
  EXPECT_NE(build.failed_file.find("ops_test.cc"), std::string::npos);
}

TEST(SdkBorder, NoExceptionCrosses) {
  RecordingBuild build(8);
  EXPECT_EQ(guarded(&build, [] { throw 7; }), LAMINA_ERROR_INTERNAL);
  EXPECT_EQ(guarded(&build, [] { throw std::bad_alloc(); }), LAMINA_ERROR_MEMORY);
  EXPECT_EQ(guarded(&build, [] { throw std::runtime_error("why"); }), LAMINA_ERROR_INTERNAL);
  EXPECT_EQ(build.message, "why");
}

}  // namespace
}  // namespace lamina::testing
