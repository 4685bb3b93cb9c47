// Every file of the safetensors zoo gives the expected class of result.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "core/json.h"
#include "io/safetensors.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/temp_dir.h"

namespace lamina::io {
namespace {

// Unusual files that the reference implementation accepts and that may be refused (the zoo's
// README).
bool may_be_refused(std::string_view file) {
  return file == "entry_array.safetensors" || file == "deep_nesting_extra.safetensors";
}

TEST(SafetensorsZoo, EveryFileIsAcceptedOrRefusedAsInTheZoo) {
  const auto folder = testing::golden_dir() / "text" / "safetensors_zoo";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const JsonDocument zoo = JsonDocument::read(folder / "zoo.json");
  int num_cases = 0;
  for (JsonValue item : zoo.root().at("cases").elements()) {
    const std::string name(item.at("file").as_string());
    const std::string path = folder / name;
    SCOPED_TRACE(name + ": " + std::string(item.at("why").as_string()));
    ++num_cases;
    const bool refuse = item.at("safe_open").as_string() == "refuses" ||
                        (item.find("lamina") && item.at("lamina").as_string() == "refuse");
    try {
      const SafetensorsFile file(path);
      EXPECT_FALSE(refuse);
      if (refuse) continue;
      const JsonValue names = item.at("names");
      EXPECT_EQ(file.tensors().size(), names.is_array() ? names.size() : names.as_uint64());
      if (!item.find("tensors")) continue;
      for (const auto& [tensor, expected] : item.at("tensors").members()) {
        const StoredTensor* stored = file.find(tensor);
        ASSERT_NE(stored, nullptr) << tensor;
        EXPECT_EQ(stored->type, expected.at("dtype").as_string());
        ASSERT_EQ(stored->dims.size(), expected.at("shape").size());
        std::size_t i = 0;
        for (JsonValue dim : expected.at("shape").elements())
          EXPECT_EQ(stored->dims[i++], dim.as_uint64());
      }
      if (const JsonValue metadata = item.at("metadata"); metadata.is_object()) {
        for (const auto& [key, value] : metadata.members())
          EXPECT_EQ(file.metadata().at(std::string(key)), value.as_string());
      }
    } catch (const UserError& e) {
      EXPECT_TRUE(refuse || may_be_refused(name)) << e.what();
      EXPECT_EQ(e.code(), ExitCode::checkpoint);
      EXPECT_EQ(e.text().where.rfind(path, 0), 0u) << e.what();
      EXPECT_FALSE(e.text().notes.empty()) << e.what();
    }
  }
  EXPECT_GT(num_cases, 100);
}

std::string length_and(std::string header) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header;
}

std::string padded(std::size_t header_bytes) {
  std::string header = R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.resize(header_bytes, ' ');
  return length_and(std::move(header)) + '\1';
}

TEST(SafetensorsZoo, AcceptsAHeaderOfExactlyTheLimitAndNoneAbove) {
  const testing::TempDir dir;
  EXPECT_EQ(SafetensorsFile(dir.write("a", padded(100'000'000))).tensors().size(), 1u);
  EXPECT_ERROR_SAYS(SafetensorsFile(dir.write("b", padded(100'000'008))), ExitCode::checkpoint,
                    "100000008 bytes; the maximum is 100000000");
}

TEST(SafetensorsZoo, AHundredThousandTensorsMayNotShareBytes) {
  const testing::TempDir dir;
  std::string good = "{", bad = "{";
  for (int i = 0; i < 100000; ++i) {
    const char* comma = i ? "," : "";
    good += fmt::format(R"({}"t{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", comma, i,
                        i, i + 1);
    bad += fmt::format(R"({}"t{}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", comma, i);
  }
  EXPECT_EQ(SafetensorsFile(dir.write("good", length_and(good + "}") + std::string(100000, '\0')))
                .tensors()
                .size(),
            100000u);
  EXPECT_ERROR_SAYS(SafetensorsFile(dir.write("bad", length_and(bad + "}") + std::string(4, '\0'))),
                    ExitCode::checkpoint, "neither overlap");
}

}  // namespace
}  // namespace lamina::io
