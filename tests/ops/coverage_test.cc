// Every op of ops.def has tests with its name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>

#include "ops/decode.h"
#include "ops/registry.h"

namespace lamina {
namespace {

// "rms_norm_grad" -> "RmsNormGrad"
std::string suite_of(const std::string& op) {
  std::string out;
  bool upper = true;
  for (char c : op) {
    if (c != '_') out += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = c == '_';
  }
  return out;
}

TEST(OpTests, EveryOpHasCases) {
  std::set<std::string> suites;
  const ::testing::UnitTest& unit = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < unit.total_test_suite_count(); ++i) {
    std::string name = unit.GetTestSuite(i)->name();
    suites.insert(name.substr(name.find('/') + 1));  // "Dtypes/FusedMap"
  }
  for (const Op& op : ops::all()) EXPECT_TRUE(suites.contains(suite_of(op.name))) << op.name;
}

// Every op declares the properties that plan, bench, decoding and sharding read, or the reason why
// it has none.
TEST(OpTests, EveryOpDeclaresCostStateAndSharding) {
  for (const Op& op : ops::all()) {
    SCOPED_TRACE(op.name);
    const OpDef& def = *op.def;
    if (def.elementwise) continue;
    EXPECT_EQ(def.cost.flops == nullptr, !def.cost.none.empty());
    ASSERT_NE(def.decode, nullptr);
    EXPECT_EQ(def.decode->none.empty(), ops::decode_form(op) != nullptr);
    const int rules = !def.split.rule.empty() + (def.split.rule_of != nullptr);
    EXPECT_EQ(rules, def.split.none.empty() ? 1 : 0);
  }
}

// The check of blocks that mix tokens needs the token dims of every op that a plugin can use.
TEST(OpTests, EveryOpOfPluginsDeclaresTheTokensOfItsOutputs) {
  for (const Op& op : ops::all()) {
    if (op.host_only()) continue;
    EXPECT_TRUE(op.def->tokens || op.def->split.none.empty()) << op.name;
  }
}

bool has_input(const Op& op, std::string_view name) {
  return std::ranges::find(op.inputs, name, &OpInput::name) != op.inputs.end();
}

TEST(OpTests, FactsNameInputsAndAttributesThatTheOpHas) {
  for (const Op& op : ops::all()) {
    SCOPED_TRACE(op.name);
    const OpFacts& facts = op.def->facts;
    for (const ParamOperand& operand : facts.params)
      EXPECT_EQ(has_input(op, operand.input), operand.use != ParamUse::none);
    for (const std::string_view attr : facts.size_attrs) {
      EXPECT_TRUE(attr.empty() || op.attr_index(attr) >= 0) << attr;
    }
    EXPECT_TRUE(facts.chooses_by.empty() || has_input(op, facts.chooses_by));
    EXPECT_TRUE(!facts.accumulates || has_input(op, "acc"));
    EXPECT_TRUE(!facts.draws || op.inputs[op.num_plugin_inputs].name == "seed");
  }
}

}  // namespace
}  // namespace lamina
