// lamina train --profile: the trace and the table; neither changes the training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/train/training_profile.h"
#include "cli/trained_run.h"
#include "core/error.h"
#include "core/json.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;

TEST(Profile, TracesEveryKernelOfTheSteps) {
  const TempDir folder;
  const Finished f = train_tiny(folder, "out", {"--profile", "steps=2:3"});
  ASSERT_EQ(f.code, 0) << f.err;
  const JsonDocument trace = JsonDocument::read(folder / "out/profile.json");
  std::vector<std::pair<double, double>> steps;
  std::set<std::string> ops, names;
  for (const JsonValue event : trace.root().at("traceEvents").elements()) {
    if (event.at("ph").as_string() == "M") continue;
    const std::string name(event.at("name").as_string()), kind(event.at("cat").as_string());
    const double begin = event.at("ts").as_double(), end = begin + event.at("dur").as_double();
    if (kind == "step") {
      names.insert(name);
      steps.emplace_back(begin, end);
      continue;
    }
    const double slack = 1e-3;  // microseconds are rounded to a double
    EXPECT_TRUE(std::ranges::any_of(steps, [&](const auto& step) {
      return step.first <= begin + slack && end <= step.second + slack;
    })) << name;
    if (kind == "kernel") {
      ops.insert(name);
      EXPECT_FALSE(event.at("args").at("kernel").as_string().empty());
    } else {
      EXPECT_EQ(name, "scan");
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"step 2", "step 3"}));
  for (const char* op : {"linear", "adamw", "cross_entropy_grad"})
    EXPECT_TRUE(ops.contains(op)) << op;
  EXPECT_THAT(f.err, HasSubstr("rate  limit  op"));
  EXPECT_THAT(f.err, HasSubstr("profile of 2 steps in "));
}

TEST(Profile, ChangesNoBitOfTraining) {
  const TempDir folder;
  ASSERT_EQ(train_tiny(folder, "with", {"--profile", "steps=1:4"}).code, 0);
  ASSERT_EQ(train_tiny(folder, "without", {}).code, 0);
  expect_equal_tensors(folder, "with", "without");
}

TEST(Profile, RefusesStepsThatTheRunDoesNotHave) {
  const TempDir folder;
  const Finished f = train_tiny(folder, "out", {"--profile", "steps=10:12"});
  EXPECT_EQ(f.code, 2);
  EXPECT_THAT(f.err, HasSubstr("--profile: got steps 10 to 12; the run has steps 1 to 4"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  ASSERT_EQ(train_tiny(folder, "out", {"--set", "train.steps=2"}).code, 0);
  const Finished resumed = train_tiny(folder, "out", {"--profile", "steps=1:2"});
  EXPECT_EQ(resumed.code, 2);
  EXPECT_THAT(resumed.err, HasSubstr("--profile: got steps 1 to 2; the run has steps 3 to 4"));
}

TEST(Profile, StepsAreTwoNumbers) {
  EXPECT_EQ(parse_profiled_steps("steps=10:12"), (std::pair<std::int64_t, std::int64_t>{10, 12}));
  for (const char* text : {"10:12", "steps=", "steps=3", "steps=0:2", "steps=3:2", "steps=1:2x"})
    EXPECT_THROW(parse_profiled_steps(text), UserError) << text;
}

TEST(Profile, RatesAreSharesOfTheLimitThatCounts) {
  const std::string table = kernel_table({{.op = "linear",
                                           .kernel = "gemm",
                                           .type = "bf16[8, 8]",
                                           .dtype = DType::bf16,
                                           .calls = 2,
                                           .seconds = 0.75,
                                           .flops = 75e9,
                                           .bytes = 1e9},
                                          {.op = "add",
                                           .kernel = "map",
                                           .type = "f32[8]",
                                           .calls = 1,
                                           .seconds = 0.25,
                                           .flops = 0,
                                           .bytes = 1e9}},
                                         16e9, 100e9, 400e9);
  EXPECT_THAT(table, HasSubstr("750.000 ms  75.0%       2   100.0 GFLOP/s  25.0%  linear"));
  EXPECT_THAT(table, HasSubstr("250.000 ms  25.0%       1        4.0 GB/s  25.0%  add"));
}

TEST(Profile, ATimeOfAlmostNothingHasNoRate) {
  const std::string table = kernel_table({{.op = "add",
                                           .kernel = "map",
                                           .type = "f32[8]",
                                           .calls = 1,
                                           .seconds = 0.25,
                                           .flops = 0,
                                           .bytes = 1e9},
                                          {.op = "copy",
                                           .kernel = "memcpy",
                                           .type = "f32[8]",
                                           .calls = 1,
                                           .seconds = 1e-8,
                                           .flops = 0,
                                           .bytes = 1e5}},
                                         16e9, 100e9, 400e9);
  EXPECT_THAT(table, HasSubstr("  0.000 ms   0.0%       1               -      -  copy"));
}

}  // namespace
}  // namespace lamina::cli
