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

// `plain` calls the wrapper with nothing but what it asks for; `full` also gives every attribute.
struct Case {
  std::string op;
  std::function<void(Tensor x, Scope s)> plain;
  std::function<void(Tensor x, Scope s)> full;
};

Case same(std::string op, std::function<void(Tensor x, Scope s)> call) {
  return {std::move(op), call, call};
}

// With the unary ops, which ops.h makes functions of by their rows.
template <typename X>
std::vector<Case> with_unary(std::vector<Case> list) {
#define LAMINA_OP(id, name, revision, inputs, outputs, attributes, doc) \
  if constexpr (is_unary(inputs, outputs, attributes))                  \
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
       [](Tensor x, Scope) { group_rows(x, {.groups = 2, .capacity = 3}); }},
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
               .mrope_interleaved = true});
       }},
      {"attention", [](Tensor x, Scope) { attention(x, x, x, {}); },
       [](Tensor x, Scope) {
         attention(x, x, x, {},
                   {.scale = 2, .soft_cap = 3, .causal = false, .window = 4, .chunk = 5},
                   {.sinks = x, .blocks = x, .mask = x});
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
      {"dropout", [](Tensor x, Scope) { dropout(x, x, x, {}); },
       [](Tensor x, Scope) { dropout(x, x, x, {.rate = 0.1, .stream = 2}); }},
  });
  return all;
}

// Attributes that the host alone decides: where decode state is a ring.
bool host_decides(std::string_view op, std::string_view attribute) {
  return op == "attention" && attribute == "ring";
}

struct AttrRow {
  std::uint32_t key;
  std::string name, kind, fallback;
  bool has_fallback;
};

std::vector<AttrRow> attributes_of(const OpSpec& spec) {
  std::vector<AttrRow> rows;
  std::istringstream words{std::string(spec.attributes)};
  std::uint32_t key = 0;
  for (std::string word; words >> word;) {
    const std::size_t colon = word.find(':'), equals = word.find('=');
    AttrRow row;
    row.key = ++key;
    row.name = word.substr(0, colon);
    row.kind = word.substr(colon + 1, std::min(equals, word.size()) - colon - 1);
    if (row.kind == "b") row.kind = "i";  // a flag is a whole number
    row.has_fallback = equals != std::string::npos;
    if (row.has_fallback) row.fallback = word.substr(equals + 1);
    if (!host_decides(spec.name, row.name)) rows.push_back(row);
  }
  return rows;
}

const OpSpec& spec_named(const std::string& name) {
  for (const OpSpec& spec : kOpSpecs)
    if (spec.name == name) return spec;
  throw std::runtime_error("ops.def has no op " + name);
}

Emission emission_of(const std::function<void(Tensor, Scope)>& call) {
  RecordingBuild build(8);
  call(Tensor{&build, 1}, Scope(&build, 0.02));
  EXPECT_EQ(build.emissions.size(), 1u);
  return build.emissions.empty() ? Emission{} : build.emissions.front();
}

std::string kind_of_value(const Value& value) {
  static const char* const kinds[] = {"none", "i", "f", "b", "s", "il", "fl", "sl"};
  return kinds[value.index()];
}

TEST(SdkOps, CoverEveryPublicOp) {
  for (const OpSpec& spec : kOpSpecs)
    EXPECT_TRUE(std::any_of(cases().begin(), cases().end(),
                            [&](const Case& c) { return c.op == spec.name; }))
        << spec.name << " of ops.def has no wrapper in lamina/sdk/ops.h, or no case here";
}

TEST(SdkOps, EmitTheOpOfTheirName) {
  for (const Case& c : cases()) {
    const OpSpec& spec = spec_named(c.op);
    const Emission e = emission_of(c.full);
    EXPECT_EQ(e.op, static_cast<std::uint32_t>(spec.op)) << c.op;
    EXPECT_EQ(e.revision, spec.revision) << c.op;
    EXPECT_EQ(e.outputs, count_words(spec.outputs)) << c.op;
    EXPECT_LE(e.inputs.size(), count_words(spec.inputs) + (c.op == "concat")) << c.op;
  }
}

TEST(SdkOps, SetEveryAttributeOfOpsDef) {
  for (const Case& c : cases()) {
    const Emission e = emission_of(c.full);
    const std::vector<AttrRow> rows = attributes_of(spec_named(c.op));
    EXPECT_EQ(e.attrs.size(), rows.size()) << c.op;
    for (const AttrRow& row : rows) {
      ASSERT_TRUE(e.attrs.contains(row.key)) << c.op << " cannot set '" << row.name << "'";
      EXPECT_EQ(kind_of_value(e.attrs.at(row.key)), row.kind) << c.op << " " << row.name;
    }
  }
}

TEST(SdkOps, HaveTheDefaultsOfOpsDef) {
  for (const Case& c : cases()) {
    const Emission plain = emission_of(c.plain);
    for (const AttrRow& row : attributes_of(spec_named(c.op))) {
      if (!row.has_fallback) continue;
      ASSERT_TRUE(plain.attrs.contains(row.key)) << c.op << " " << row.name;
      const Value& value = plain.attrs.at(row.key);
      Value expected = row.fallback;
      if (row.kind == "i") expected = std::int64_t{std::stoll(row.fallback)};
      if (row.kind == "f") expected = std::stod(row.fallback);
      EXPECT_EQ(value, expected) << c.op << " " << row.name;
    }
  }
}

TEST(SdkOps, GiveEachAttributeItsOwnValue) {
  const Emission e = emission_of(
      [](Tensor x, Scope) { rope(x, x, {.theta = 5e5, .scaling = "llama3", .factor = 8}); });
  EXPECT_EQ(std::get<double>(e.attrs.at(1)), 5e5);
  EXPECT_EQ(std::get<std::string>(e.attrs.at(4)), "llama3");
  EXPECT_EQ(std::get<double>(e.attrs.at(5)), 8);
}

TEST(SdkOps, SinksAreTheEighthInputOfAttention) {
  const Emission e = emission_of([](Tensor x, Scope) { attention(x, x, x, {}, {}, {.sinks = x}); });
  EXPECT_EQ(e.inputs, (std::vector<lamina_tensor_t>{1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0}));
}

TEST(SdkOps, MinusIsNeg) {
  const Emission e = emission_of([](Tensor x, Scope) { -x; });
  EXPECT_EQ(e.op, static_cast<std::uint32_t>(Op::neg));
}

TEST(SdkOps, ANumberLessATensorIsAShiftOfItsNegation) {
  RecordingBuild build(8);
  1 - Tensor{&build, 1};
  ASSERT_EQ(build.emissions.size(), 2u);
  EXPECT_EQ(build.emissions[0].op, static_cast<std::uint32_t>(Op::neg));
  EXPECT_EQ(std::get<double>(build.emissions[1].attrs.at(1)), 1);
}

TEST(SdkOps, AssigningOperatorsAreOpsOfBothSides) {
  RecordingBuild build(8);
  Tensor x{&build, 1};
  x += x * x;
  ASSERT_EQ(build.emissions.size(), 2u);
  EXPECT_EQ(build.emissions[1].op, static_cast<std::uint32_t>(Op::add));
  EXPECT_EQ(build.emissions[1].inputs, (std::vector<lamina_tensor_t>{1, 2}));
  EXPECT_EQ(x.handle, 3u);
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
