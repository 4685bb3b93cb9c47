// lamina embed: contents of the file, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "cli/trained_run.h"
#include "io/safetensors.h"
#include "io/weight_files.h"
#include "train/loop/run_directory.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;

Finished embed(const std::string& file, std::vector<std::string> words) {
  words.insert(words.begin(), {"embed", "-m", trained_run(), "-o", file});
  return lamina_program(words);
}

std::vector<std::string> names_in(const std::string& path) {
  const io::SafetensorsFile file(path);
  std::vector<std::string> out;
  for (const io::StoredTensor& tensor : file.tensors()) out.push_back(tensor.name);
  std::ranges::sort(out);
  return out;
}

std::vector<float> floats(const io::SafetensorsFile& file, const std::string& name) {
  const io::TensorView tensor = file.tensor(name);
  std::vector<float> out(tensor.bytes.size() / sizeof(float));
  std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
  return out;
}

TEST(Embed, MoreTokensThanPositionsNeedAnOption) {
  const TempDir folder;
  const std::string path = folder / "states.safetensors";
  std::string ids = "1";
  for (int i = 0; i < 64; ++i) ids += ",1";
  Finished result = embed(path, {"--ids", ids});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("error: --ids: the text has 65 tokens; the context has room for 64\n"
                        "  shorten it, or raise --ctx-size"));
  // The byte tokenizer puts a token before the text.
  result = embed(path, {"-p", std::string(64, 'x')});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err,
              HasSubstr("error: prompt: the text has 65 tokens; the context has room for 64\n"));
  EXPECT_FALSE(std::filesystem::exists(path));
  result = embed(path, {"--ids", ids, "--ctx-size", "65"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning: the context of 65 tokens exceeds the 64 positions"));
  EXPECT_EQ(io::SafetensorsFile(path).tensor("ids").shape, (Shape{65}));
}

TEST(Embed, Example) {
  const TempDir folder;
  const std::string path = folder / "states.safetensors";
  const Finished result = embed(path, {"-p", "In the"});
  ASSERT_EQ(result.code, 0) << result.err;
  const io::SafetensorsFile file(path);
  EXPECT_EQ(names_in(path), (std::vector<std::string>{"ids", "last_hidden_state"}));
  // The byte tokenizer puts a token before the text.
  EXPECT_EQ(file.tensor("last_hidden_state").shape, (Shape{7, 32}));
}

TEST(Embed, InputsOfTheLayersAreRowsOfTheTable) {
  const TempDir folder;
  const std::string path = folder / "states.safetensors";
  ASSERT_EQ(embed(path, {"--ids", "70,80", "--layers", "embed,1"}).code, 0);
  const io::SafetensorsFile file(path);
  EXPECT_EQ(names_in(path), (std::vector<std::string>{"hidden.1", "hidden.embed", "ids"}));
  const io::WeightFiles weights(train::resolve_model_directory(trained_run()));
  const io::TensorView table = weights.tensor("embed.weight");
  std::vector<float> rows(2 * 32);
  for (std::size_t i : {0u, 1u})
    std::memcpy(rows.data() + i * 32, table.bytes.data() + (70 + 10 * i) * 32 * sizeof(float),
                32 * sizeof(float));
  EXPECT_EQ(floats(file, "hidden.embed"), rows);
}

TEST(Embed, AllIsEveryLayerAndTheLast) {
  const TempDir folder;
  const std::string path = folder / "states.safetensors";
  ASSERT_EQ(embed(path, {"--ids", "1,2,3", "--layers", "all"}).code, 0);
  EXPECT_EQ(names_in(path), (std::vector<std::string>{"hidden.0", "hidden.1", "hidden.embed", "ids",
                                                      "last_hidden_state"}));
}

TEST(Embed, RefusesImpossibleOptions) {
  const TempDir folder;
  const std::string path = folder / "states.safetensors";
  struct Case {
    std::vector<std::string> words;
    int code;
    std::string says;
  };
  for (const Case& c : std::vector<Case>{
           {{"--ids", "1", "--layers", "2"},
            2,
            "error: --layers: got '2'; expected numbers from 0 to 1, embed, last or all"},
           {{"--ids", "1", "--layers", "0,"}, 2, "error: --layers: got ''"},
           {{"--ids", "258"}, 2, "id 258 is outside the vocabulary of 258"},
           {{"--ids", "1", "-p", "a"}, 2, "prompt: -p and --ids cannot be combined"}}) {
    const Finished result = embed(path, c.words);
    EXPECT_EQ(result.code, c.code) << c.says;
    EXPECT_THAT(result.err, HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace lamina::cli
