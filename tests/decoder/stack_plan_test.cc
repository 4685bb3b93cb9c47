// The stack plan: every pattern of layers of the families, scanned, unrolled and cut.
#include "decoder/stack/stack_plan.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace lamina::decoder {
namespace {

using registry::PlanSpec;
using registry::PositionSpec;
using registry::SegmentSpec;

// Blocks by letter, as the texts below show them.
const std::vector<std::string> kLetters = {"?", "B", "L", "G", "D", "M", "F", "S"};

// A segment from letters: unit "LLLLLG" run `times` times.
SegmentSpec segment(const std::string& unit, std::int64_t times) {
  SegmentSpec out;
  for (char letter : unit) {
    PositionSpec position;
    position.block = static_cast<std::uint32_t>(
        std::ranges::find(kLetters, std::string(1, letter)) - kLetters.begin());
    out.unit.push_back(position);
  }
  out.times = times;
  return out;
}

std::string resolved(std::vector<SegmentSpec> segments, const StackOptions& options = {}) {
  return to_string(resolve_stack(PlanSpec{std::move(segments)}, options), kLetters);
}

TEST(StackPlan, Example) {
  StackPlan plan = resolve_stack({{segment("LG", 3)}}, {.scan_layers = true});
  ASSERT_EQ(plan.segments.size(), 1u);
  EXPECT_EQ(plan.num_layers(), 6);
  EXPECT_EQ(plan.segments[0].layers_at(0), (std::vector<std::int64_t>{0, 2, 4}));
  EXPECT_EQ(plan.segments[0].layers_at(1), (std::vector<std::int64_t>{1, 3, 5}));
  EXPECT_EQ(to_string(plan, kLetters), "{L G} x 3 (layers 0-5)");
}

TEST(StackPlan, ScansThePatternsOfTheField) {
  struct Pattern {
    std::vector<SegmentSpec> segments;
    std::string says;
  };
  const Pattern patterns[] = {
      // The same block in all layers.
      {{segment("B", 32)}, "{B} x 32 (layers 0-31)"},
      // Five local layers per global layer, and a remainder.
      {{segment("LLLLLG", 4), segment("LL", 1)},
       "{L L L L L G} x 4 (layers 0-23), {L L} x 1 (layers 24-25)"},
      {{segment("LLLLLG", 1), segment("L", 1)},
       "{L L L L L G} x 1 (layers 0-5), {L} x 1 (layer 6)"},
      // Dense layers first, then experts.
      {{segment("D", 3), segment("M", 58)}, "{D} x 3 (layers 0-2), {M} x 58 (layers 3-60)"},
      {{segment("D", 1), segment("M", 1)}, "{D} x 1 (layer 0), {M} x 1 (layer 1)"},
      // The lcm of the intervals of attention and of experts.
      {{segment("DMDMDMDM", 6)}, "{D M D M D M D M} x 6 (layers 0-47)"},
      // Three recurrent layers per attention layer; then two and four kinds of attention.
      {{segment("LLLF", 12)}, "{L L L F} x 12 (layers 0-47)"},
      {{segment("SF", 18)}, "{S F} x 18 (layers 0-35)"},
      {{segment("SSSF", 8)}, "{S S S F} x 8 (layers 0-31)"},
      // A model without layers is an embedding and a head.
      {{segment("B", 0)}, ""},
      {{}, ""},
  };
  for (const Pattern& p : patterns) EXPECT_EQ(resolved(p.segments), p.says);
}

TEST(StackPlan, UnrolledHasOneSegmentALayerInTheSameOrder) {
  EXPECT_EQ(resolved({segment("D", 1), segment("LG", 2)}, {.scan_layers = false}),
            "{D} x 1 (layer 0), {L} x 1 (layer 1), {G} x 1 (layer 2), {L} x 1 (layer 3), "
            "{G} x 1 (layer 4)");
}

TEST(StackPlan, ASegmentMayAskToBeUnrolled) {
  SegmentSpec unrolled = segment("D", 2);
  unrolled.unroll = true;
  EXPECT_EQ(resolved({unrolled, segment("M", 3)}),
            "{D} x 1 (layer 0), {D} x 1 (layer 1), {M} x 3 (layers 2-4)");
}

TEST(StackPlan, CutsLeaveOneShotSegmentsAndScanTheRest) {
  struct Cut {
    std::vector<SegmentSpec> segments;
    std::vector<std::int64_t> layers;
    std::string says;
  };
  const Cut cuts[] = {
      {{segment("B", 8)}, {0}, "{B} x 1 (layer 0), {B} x 7 (layers 1-7)"},
      {{segment("B", 8)}, {7}, "{B} x 7 (layers 0-6), {B} x 1 (layer 7)"},
      {{segment("B", 8)},
       {5, 1},  // in any order
       "{B} x 1 (layer 0), {B} x 1 (layer 1), {B} x 3 (layers 2-4), {B} x 1 (layer 5), "
       "{B} x 2 (layers 6-7)"},
      {{segment("B", 4)},
       {1, 2},  // neighbours
       "{B} x 1 (layer 0), {B} x 1 (layer 1), {B} x 1 (layer 2), {B} x 1 (layer 3)"},
      // In the last dense and the first routed layer.
      {{segment("D", 3), segment("M", 5)},
       {2, 3},
       "{D} x 2 (layers 0-1), {D} x 1 (layer 2), {M} x 1 (layer 3), {M} x 4 (layers 4-7)"},
      // In the middle of a round: its ends run once, whole rounds stay scanned.
      {{segment("LLLF", 5)},
       {9},
       "{L L L F} x 2 (layers 0-7), {L} x 1 (layer 8), {L} x 1 (layer 9), {L F} x 1 (layers "
       "10-11), {L L L F} x 2 (layers 12-19)"},
      {{segment("SF", 3)},
       {1, 4},
       "{S} x 1 (layer 0), {F} x 1 (layer 1), {S F} x 1 (layers 2-3), {S} x 1 (layer 4), "
       "{F} x 1 (layer 5)"},
      // In the remainder.
      {{segment("LLLLLG", 1), segment("LL", 1)},
       {7},
       "{L L L L L G} x 1 (layers 0-5), {L} x 1 (layer 6), {L} x 1 (layer 7)"},
  };
  for (const Cut& c : cuts) EXPECT_EQ(resolved(c.segments, {.engram_layers = c.layers}), c.says);
}

// For every length of stack and every set of cuts: layers appear once, in order, with their block,
// and exactly the cut ones are one-shot.
TEST(StackPlan, NoLayerIsLostOrMovedByAnyCut) {
  const std::string unit = "LSG";
  for (std::int64_t layers = 1; layers <= 8; ++layers)
    for (unsigned mask = 0; mask < 1u << layers; ++mask)
      for (bool scan : {true, false}) {
        std::vector<SegmentSpec> segments;
        if (layers >= 3) segments.push_back(segment(unit, layers / 3));
        if (layers % 3) segments.push_back(segment(unit.substr(0, layers % 3), 1));
        StackOptions options{.scan_layers = scan, .engram_layers = {}};
        for (std::int64_t i = 0; i < layers; ++i)
          if (mask >> i & 1) options.engram_layers.push_back(i);
        std::int64_t next = 0;
        for (const StackSegment& s : resolve_stack(PlanSpec{segments}, options).segments) {
          EXPECT_EQ(s.first_layer, next);
          for (std::int64_t time = 0; time < s.times; ++time)
            for (std::size_t p = 0; p < s.unit.size(); ++p, ++next) {
              ASSERT_EQ(s.layer(time, p), next);
              EXPECT_EQ(kLetters[s.unit[p].block][0], unit[static_cast<std::size_t>(next % 3)]);
              EXPECT_EQ(s.one_shot, (mask >> next & 1) != 0);
            }
        }
        EXPECT_EQ(next, layers);
      }
}

TEST(StackPlan, PositionsKeepTheirSettingsThroughACut) {
  SegmentSpec spec = segment("LG", 2);
  spec.unit[1].overrides = {{"sliding_window", config::Value(0)}};
  StackPlan plan = resolve_stack({{spec}}, {.engram_layers = {2}});
  ASSERT_EQ(plan.segments.size(), 3u);
  EXPECT_EQ(plan.segments[0].unit, spec.unit);
  EXPECT_EQ(plan.segments[1].unit[0], spec.unit[0]);
  EXPECT_EQ(plan.segments[2].unit[0], spec.unit[1]);
}

TEST(StackPlan, DonorsAreSeparateSegments) {
  SegmentSpec before = segment("B", 4), after = segment("B", 3);
  after.unit[0].kv_donor = 2;
  StackPlan plan = resolve_stack({{before, after}}, {});
  ASSERT_EQ(plan.segments.size(), 4u);  // 0-1, 2, 3, 4-6
  EXPECT_TRUE(plan.segments[1].one_shot && plan.segments[1].gives_kv);
  EXPECT_FALSE(plan.segments[2].gives_kv);
  EXPECT_EQ(plan.segments[3].times, 3);
  EXPECT_EQ(plan.find(2), (std::pair<std::size_t, std::size_t>{1, 0}));
  EXPECT_EQ(plan.find(6), (std::pair<std::size_t, std::size_t>{3, 0}));
}

TEST(StackPlan, OwnersOfSharedParametersAreSeparateSegments) {
  SegmentSpec own = segment("AB", 2), shared = segment("B", 3);
  shared.unit[0].params_of = 1;
  const StackPlan plan = resolve_stack({{own, shared}}, {});
  ASSERT_EQ(plan.segments.size(), 4u);  // 0, 1, 2-3, 4-6
  EXPECT_TRUE(plan.segments[1].one_shot && plan.segments[1].gives_params);
  EXPECT_FALSE(plan.segments[1].gives_kv);
  EXPECT_EQ(plan.segments[1].params_of(0), 1);
  EXPECT_EQ(plan.segments[2].params_of(1), std::nullopt);
  EXPECT_EQ(plan.segments[3].params_of(0), 1);
  EXPECT_EQ(plan.segments[3].times, 3);
}

TEST(StackPlan, RefusesParametersOfLaterLayersAndOfThoseThatHaveNone) {
  SegmentSpec first = segment("B", 2), user = segment("B", 1), last = segment("B", 1);
  user.unit[0].params_of = 2;
  EXPECT_ERROR_SAYS(resolve_stack({{first, user, last}}, {}), ExitCode::plugin,
                    "layer 2 uses the parameters of layer 2, which is not before it");
  user.unit[0].params_of = 1;
  last.unit[0].params_of = 2;
  EXPECT_ERROR_SAYS(
      resolve_stack({{first, user, last}}, {}), ExitCode::plugin,
      "layer 2 owns parameters of another layer and uses a third layer's; name that one as");
}

TEST(StackPlan, RefusesDonorsThatComeLaterOrReadThemselves) {
  SegmentSpec first = segment("B", 2), reader = segment("B", 1), last = segment("B", 1);
  reader.unit[0].kv_donor = 3;
  EXPECT_ERROR_SAYS(resolve_stack({{first, reader, last}}, {}), ExitCode::plugin,
                    "layer 2 reads keys and values of layer 3, which is not before it");
  reader.unit[0].kv_donor = 1;
  last.unit[0].kv_donor = 2;
  EXPECT_ERROR_SAYS(
      resolve_stack({{first, reader, last}}, {}), ExitCode::plugin,
      "layer 2 is the donor of another layer and reads the keys and values of a third");
}

}  // namespace
}  // namespace lamina::decoder
