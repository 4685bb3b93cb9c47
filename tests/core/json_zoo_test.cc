// Every document of the JSON zoo is accepted or refused as by a strict parser; repeated keys are
// refused in addition.
#include <gtest/gtest.h>

#include "core/json.h"
#include "core/json_writer.h"
#include "support/base64.h"
#include "support/expect_error.h"
#include "support/goldens.h"

namespace lamina {
namespace {

const JsonOptions kDeep = {.code = ExitCode::data, .max_depth = 1000};

TEST(JsonZoo, EveryDocumentIsAcceptedOrRefusedAsInTheZoo) {
  const auto file = testing::golden_dir() / "text" / "json_zoo" / "json_zoo.json";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no " << file;
  const JsonDocument zoo = JsonDocument::read(file);
  int num_cases = 0;
  for (JsonValue item : zoo.root().at("cases").elements()) {
    const std::string bytes = testing::base64_decode(item.at("bytes").as_string());
    SCOPED_TRACE(item.at("id").describe() + " " + bytes.substr(0, 60));
    ++num_cases;
    std::string error;
    std::string written;
    try {
      JsonWriter writer;
      writer.value(JsonDocument::parse(bytes, "case", kDeep).root());
      written = writer.text();
    } catch (const UserError& e) {
      error = e.what();
    }
    const bool repeats = error.find("appears twice") != error.npos;
    if (item.at("expect").as_string() == "refuse" || repeats) {
      EXPECT_NE(error, "");
      continue;
    }
    EXPECT_EQ(error, "");
    if (const JsonValue value = item.find("value"); error.empty() && value && value.is_string()) {
      JsonWriter expected;
      expected.value(JsonDocument::parse(std::string(value.as_string()), "value", kDeep).root());
      const std::string want = expected.text() == "0" ? written : expected.text();  // "-0"
      EXPECT_EQ(written, want);
    }
  }
  EXPECT_GT(num_cases, 200);
}

TEST(JsonZoo, RefusesAHundredThousandOpenBrackets) {
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_ERROR_SAYS(JsonDocument::parse(std::string(100000, '['), "c", kDeep), ExitCode::data,
                    "nested deeper");
  EXPECT_ERROR_SAYS(JsonDocument::parse(objects, "c", kDeep), ExitCode::data, "nested deeper");
}

}  // namespace
}  // namespace lamina
