// Golden cases with their model in a GGUF file.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "backends/cpu/backend.h"
#include "inspect/verify/case.h"
#include "inspect/verify/verify.h"
#include "io/safetensors_writer.h"
#include "model/open.h"
#include "support/gguf_conversion.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace lamina::testing {

// Cases in the repository, independent of the set of goldens for other tests.
inline const std::filesystem::path kOwnCases =
    std::filesystem::path(LAMINA_SOURCE_DIR) / "tests" / "golden" / "hf";

// Cases with a GGUF file of the optional goldens.
inline std::vector<std::filesystem::path> gguf_cases() {
  std::vector<std::filesystem::path> out = golden_folders("gguf", "golden.safetensors");
  for (std::filesystem::path& folder : golden_folders("quantised", "model.gguf"))
    out.push_back(std::move(folder));
  return out;
}

// Copies the case without quantities of other configs and of layers that converters leave out.
inline void copy_golden(const std::filesystem::path& from, const TempDir& to) {
  std::filesystem::copy(from / "golden.json", to / "golden.json");
  const io::WeightFiles golden((from / "golden.safetensors").string());
  std::vector<io::TensorSpec> specs;
  for (std::string_view name : golden.names())
    if (!name.starts_with("with_aux.") && !name.starts_with("mtp."))
      specs.push_back({std::string(name), golden.tensor(name).dtype, golden.tensor(name).shape});
  io::write_safetensors(to / "golden.safetensors", specs, {},
                        [&](const io::TensorSpec& spec) { return golden.tensor(spec.name).bytes; });
}

// Compares logits, hidden states and greedy tokens of the case; only gradients are not compared.
inline void expect_golden(const std::filesystem::path& from, const std::string& gguf) {
  TempDir dir;
  copy_golden(from, dir);
  dir.write("model.gguf", gguf);
  const inspect::VerifyReport report =
      inspect::verify_case(dir.path(), DType::f32, built_plugins(), cpu::cpu_backend());
  int logits = 0, ids = 0;
  for (const inspect::VerifyRow& row : report.rows) {
    EXPECT_TRUE(row.passed()) << row.quantity << " is off by " << row.error << ", allowed "
                              << row.tolerance << " " << row.note;
    logits += row.quantity == "logits";
    ids += row.quantity == "greedy_ids";
  }
  EXPECT_EQ(logits, 1);
  EXPECT_EQ(ids, 1);
  for (const inspect::SkippedQuantity& one : report.skipped) {
    EXPECT_NE(one.quantity.find("grad"), std::string::npos) << one.quantity;
    EXPECT_FALSE(one.reason.empty()) << one.quantity;
  }
}

// Compares logits of a case, with overrides for keys that GGUF files lack.
inline void expect_golden_logits(const std::filesystem::path& from, const std::string& gguf,
                                 const std::vector<std::string>& overrides) {
  TempDir dir;
  const model::OpenedModel opened = model::open(dir.write("m.gguf", gguf), built_plugins(), {},
                                                {.sets = overrides, .environment = {}});
  const weights::Weights weights =
      weights::Weights::load(*opened.model, opened.weight_files(), DType::f32, cpu::cpu_backend());
  const inspect::GoldenCase golden(from.string());
  const Shape shape = golden.shape("input_ids");
  const std::vector<std::int32_t> ids = golden.ints("input_ids");
  const Rows rows =
      program::rows_of(ids, std::vector<std::int32_t>(ids.size(), -100), shape[0], shape[1]);
  const Floats got = forward(*opened.model, weights.pointers(), rows),
               want = golden.floats("logits");
  ASSERT_EQ(got.size(), want.size());
  float largest = 0, worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    worst = std::max(worst, std::abs(want[i] - got[i]));
  }
  EXPECT_LE(worst, 1e-4f * largest);
}

#define SKIP_WITHOUT(directory)                                                            \
  if (!std::filesystem::exists(directory)) GTEST_SKIP() << (directory) << " is not there"; \
  if (std::string reason = reason_to_skip(directory); !reason.empty()) GTEST_SKIP() << reason

}  // namespace lamina::testing
