// Plans are data: the host receives the common patterns of published models.
#include <gtest/gtest.h>

#include "lamina/sdk.h"
#include "plugin_api/recorder.h"

namespace lamina::testing {
namespace {

using namespace sdk;

enum : std::uint32_t { kLocal = 1, kGlobal = 2, kDense = 3, kSparse = 4 };

std::vector<RecordedSegment> sent(const Plan& plan) {
  RecordingReply reply;
  send(plan, &reply);
  return reply.segments;
}

std::vector<RecordedPosition> positions(std::initializer_list<std::uint32_t> blocks) {
  std::vector<RecordedPosition> out;
  for (std::uint32_t block : blocks) out.push_back({block, {}});
  return out;
}

TEST(SdkPlan, Example) {
  const auto segments = sent(repeat(unit(kLocal, 5) + unit(kGlobal)).over(62).remainder_prefix());
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].unit, positions({kLocal, kLocal, kLocal, kLocal, kLocal, kGlobal}));
  EXPECT_EQ(segments[0].times, 10u);
  EXPECT_EQ(segments[1].unit, positions({kLocal, kLocal}));
  EXPECT_EQ(segments[1].times, 1u);
}

TEST(SdkPlan, PrefixIsBeforeTheRest) {
  const auto segments =
      sent(prefix("dense", unit(kDense), 3) + repeat(unit(kSparse), "moe").over(58));
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0], (RecordedSegment{"dense", positions({kDense}), 3}));
  EXPECT_EQ(segments[1], (RecordedSegment{"moe", positions({kSparse}), 58}));
}

TEST(SdkPlan, EmptyPartsLeaveNoSegment) {
  EXPECT_TRUE(sent(prefix("dense", unit(kDense), 0)).empty());
  EXPECT_TRUE(sent(repeat(unit(kDense)).over(0)).empty());
  const auto short_model = sent(repeat(unit(kLocal, 5) + unit(kGlobal)).over(4).remainder_prefix());
  ASSERT_EQ(short_model.size(), 1u);
  EXPECT_EQ(short_model[0].unit, positions({kLocal, kLocal, kLocal, kLocal}));
}

TEST(SdkPlan, LayersLeftOverAreRefusedUnlessAskedFor) {
  try {
    (void)repeat(unit(kLocal, 3) + unit(kGlobal)).over(10).exact();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), LAMINA_ERROR_CONFIG);
    EXPECT_STREQ(error.what(), "plan: 10 layers are not a multiple of the unit's 4");
  }
}

TEST(SdkPlan, LayersOfKindsFindTheirRepetitions) {
  auto plan_of = [](std::string_view kinds) {
    std::string text;
    for (const Segment& segment :
         layers_of(std::vector<char>(kinds.begin(), kinds.end()),
                   [](char kind) { return unit(kind == 'L' ? kLocal : kGlobal); })) {
      text += '{';
      for (const Position& p : segment.unit) text += p.block == kLocal ? 'L' : 'G';
      text += "}x" + std::to_string(segment.times);
    }
    return text;
  };
  EXPECT_EQ(plan_of(""), "");
  EXPECT_EQ(plan_of("G"), "{G}x1");
  EXPECT_EQ(plan_of("LLLL"), "{L}x4");
  EXPECT_EQ(plan_of("LLGLLGL"), "{LLG}x2{L}x1");
  EXPECT_EQ(plan_of("GLLL"), "{G}x1{L}x3");
  EXPECT_EQ(plan_of("LGLGLG"), "{LG}x3");
}

TEST(SdkPlan, OverridesReachTheirPosition) {
  const auto segments =
      sent(repeat(unit(kLocal, 1, {{"sliding_window", 512}, {"rope_theta", 1e4}}) + unit(kLocal))
               .over(4));
  ASSERT_EQ(segments[0].unit.size(), 2u);
  EXPECT_EQ(std::get<std::int64_t>(segments[0].unit[0].overrides.at("sliding_window")), 512);
  EXPECT_EQ(std::get<double>(segments[0].unit[0].overrides.at("rope_theta")), 1e4);
  EXPECT_TRUE(segments[0].unit[1].overrides.empty());
}

// Returns the refusal of the keys of multi-token prediction; "" if there is none.
std::string refused(const Plan& plan, const Embed& embed, bool own_layer) {
  RecordingReply reply;
  check_mtp({.num_nextn_predict_layers = 1}, plan, embed, own_layer, Problems(&reply));
  if (reply.problems.empty()) return "";
  EXPECT_EQ(reply.problems[0].first, "num_nextn_predict_layers");
  return reply.problems[0].second;
}

// A prediction layer is a copy of the last layer: it must not need anything that only the stack
// has, unless the model names a layer, which handles prediction.
TEST(SdkPrediction, IsRefusedWhereTheLastLayerCannotStandAlone) {
  const Plan plain = repeat(unit(kDense)).over(3).exact();
  const Plan reads = plain + prefix("last", Unit{{.block = kDense, .kv_donor = 0}}, 1);
  const Plan shares = plain + prefix("last", Unit{{.block = kDense, .params_of = 0}}, 1);
  const Embed inputs{.entry = 5, .per_layer = 1};
  EXPECT_EQ(refused(plain, {}, false), "");
  EXPECT_EQ(refused({}, {}, false),
            "got 1; a prediction layer is a copy of the last layer, and num_hidden_layers = 0");
  EXPECT_EQ(refused(reads, {}, false),
            "got 1; the last layer reads another layer's keys and values, so it must be 0");
  EXPECT_EQ(refused(shares, {}, false),
            "got 1; the last layer uses another layer's parameters, so it must be 0");
  EXPECT_EQ(refused(plain, inputs, false),
            "got 1; layers of this model read inputs or states that exist only for layers of the "
            "stack, so it must be 0");
  for (const Plan& plan : {plain, reads, shares}) EXPECT_EQ(refused(plan, inputs, true), "");
  EXPECT_NE(refused(plain, {.entry = 5, .carries = 2}, true), "") << "another state is carried";
}

}  // namespace
}  // namespace lamina::testing
