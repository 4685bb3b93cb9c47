// lamina decode --embeddings: rows of a file replace the placeholder tokens of a prompt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "cli/trained_run.h"
#include "decode/prompt_rows.h"
#include "io/weight_files.h"
#include "model/open.h"
#include "support/expect_error.h"
#include "support/models.h"
#include "support/tensor_file.h"

namespace lamina::cli {
namespace {

using decode::PromptRows;
using decode::read_prompt_rows;

using lamina::testing::FileTensor;
using lamina::testing::Finished;
using lamina::testing::TempDir;
using lamina::testing::write_tensors;

// Rows of the trained model's token table.
std::vector<float> table_rows(const std::vector<std::size_t>& ids) {
  const io::WeightFiles weights(train::resolve_model_directory(trained_run()));
  const io::TensorView table = weights.tensor("embed.weight");
  const auto width = static_cast<std::size_t>(table.shape[1]);
  std::vector<float> out(ids.size() * width);
  for (std::size_t i = 0; i < ids.size(); ++i)
    std::memcpy(out.data() + i * width, table.bytes.data() + ids[i] * width * sizeof(float),
                width * sizeof(float));
  return out;
}

Finished decode(std::vector<std::string> words) {
  words.insert(words.begin(), {"decode", "-m", trained_run(), "--temp", "0", "-n", "12", "--dtype",
                               "float32", "--ignore-eos", "--json"});
  Finished result = lamina_program(words);
  // Without the timings.
  result.out = result.out.substr(0, result.out.find("\"timings\""));
  return result;
}

TEST(Embeddings, RowsOfTheTableAreAsTheirTokens) {
  const TempDir folder;
  write_tensors(folder / "rows.safetensors", {{"embeddings", {3, 32}, table_rows({70, 80, 90})}});
  const Finished text = decode({"--ids", "10,70,80,20,30,90"});
  const Finished rows = decode({"--ids", "10,5,5,20,30,5", "--placeholder", "5", "--embeddings",
                                folder / "rows.safetensors"});
  ASSERT_EQ(text.code, 0) << text.err;
  ASSERT_EQ(rows.code, 0) << rows.err;
  EXPECT_EQ(rows.out, text.out);
  EXPECT_NE(decode({"--ids", "10,5,5,20,30,5"}).out, text.out);
}

TEST(Embeddings, FeaturesAreAddedBehindLayers) {
  const TempDir folder;
  const std::vector<float> rows = table_rows({70});
  write_tensors(
      folder / "rows.safetensors",
      {{"embeddings", {1, 32}, rows}, {"deepstack", {1, 1, 32}, std::vector<float>(32, 3.0F)}});
  const Finished plain = decode({"--ids", "10,70"});
  const Finished more =
      decode({"--ids", "10,5", "--placeholder", "5", "--embeddings", folder / "rows.safetensors"});
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_NE(more.out, plain.out);
}

class PromptRowsFile : public ::testing::Test {
 protected:
  PromptRows read(const std::vector<FileTensor>& tensors, std::vector<std::int32_t> prompt) const {
    write_tensors(folder / "rows.safetensors", tensors);
    return read_prompt_rows(folder / "rows.safetensors", prompt, std::vector<std::int64_t>{5},
                            model);
  }
  FileTensor embeddings(std::int64_t rows) const {
    return {
        "embeddings", {rows, 16}, std::vector<float>(static_cast<std::size_t>(rows) * 16, 1.0F)};
  }

  TempDir folder;
  decoder::Model model = lamina::testing::open_description(
      "family = \"llama2\"\n[model]\nvocab_size = 99\nhidden_size = 16\nintermediate_size = 24\n"
      "num_hidden_layers = 2\nnum_attention_heads = 2\n");
};

// An image of 1 x 2 x 3, a token, an image of 2 x 1 x 1 directly followed by an image of 1 x 1 x 1.
TEST_F(PromptRowsFile, AGridGivesPlacesInTimeHeightAndWidth) {
  const PromptRows got = read({embeddings(9), {"grid", {3, 3}, {1, 2, 3, 2, 1, 1, 1, 1, 1}}},
                              {7, 5, 5, 5, 5, 5, 5, 8, 5, 5, 5, 9});
  EXPECT_THAT(got.index, ::testing::ElementsAre(-1, 0, 1, 2, 3, 4, 5, -1, 6, 7, 8, -1));
  EXPECT_THAT(got.positions, ::testing::ElementsAre(0, 1, 1, 1, 1, 1, 1, 4, 5, 6, 7, 8,    // time
                                                    0, 1, 1, 1, 2, 2, 2, 4, 5, 5, 7, 8,    // height
                                                    0, 1, 2, 3, 1, 2, 3, 4, 5, 5, 7, 8));  // width
  EXPECT_EQ(got.longest_image(), 6);
}

TEST_F(PromptRowsFile, MistakesAreNamed) {
  const std::string file = (folder / "rows.safetensors");
  EXPECT_USER_ERROR(read({{"rows", {1, 16}, std::vector<float>(16)}}, {5}), ExitCode::checkpoint,
                    file +
                        ": has an unknown tensor 'rows'\n  expected embeddings, deepstack, "
                        "grid, position_ids");
  EXPECT_USER_ERROR(
      read({{"grid", {1, 3}, {1, 1, 1}}}, {5}), ExitCode::checkpoint,
      file +
          ": has no tensor 'embeddings'\n  expected [rows, hidden_size], the output of a "
          "vision or audio encoder");
  EXPECT_USER_ERROR(read({{"embeddings", {2, 8}, std::vector<float>(16)}}, {5}),
                    ExitCode::checkpoint,
                    file + ": tensor 'embeddings' is [2, 8]\n  expected [rows, 16]");
  EXPECT_USER_ERROR(read({embeddings(2)}, {1, 5, 2}), ExitCode::data,
                    file +
                        ": has 2 rows; the prompt has 1 placeholder tokens (5)\n  the prompt needs "
                        "one placeholder token per row");
  EXPECT_USER_ERROR(read({embeddings(1), {"deepstack", {3, 1, 16}, std::vector<float>(48)}}, {5}),
                    ExitCode::checkpoint,
                    file + ": tensor 'deepstack' has 3 layers\n  the model has 2");
  EXPECT_USER_ERROR(
      read({embeddings(2), {"grid", {1, 3}, {1, 3, 1}}}, {5, 5}), ExitCode::data,
      file +
          ": image 0 of 'grid' is 1 x 3 x 1\n  the prompt has 2 placeholder tokens from token "
          "0 on");
  EXPECT_USER_ERROR(read({embeddings(1), {"grid", {2, 3}, {1, 1, 1, 1, 1, 1}}}, {5}),
                    ExitCode::data, file + ": 'grid' has 2 images\n  the prompt has 1");
  EXPECT_USER_ERROR(read({embeddings(1), {"position_ids", {3, 2}, std::vector<float>(6)}}, {5}),
                    ExitCode::checkpoint,
                    file + ": tensor 'position_ids' is [3, 2]\n  expected [3, 1]");
  EXPECT_USER_ERROR(
      read_prompt_rows(file, std::vector<std::int32_t>{5}, {}, model), ExitCode::usage,
      "--embeddings: the model's config.json has no placeholder token for images or sounds\n  "
      "name the placeholder token with --placeholder ID");
}

TEST(Embeddings, MistakesOfTheCommandLineAreNamed) {
  const TempDir folder;
  write_tensors(folder / "rows.safetensors",
                {{"embeddings", {1, 32}, table_rows({70})}, {"grid", {1, 3}, {1, 1, 1}}});
  const Finished alone = decode({"--ids", "5", "--placeholder", "5"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, ::testing::HasSubstr("add --embeddings FILE"));
  const Finished flat =
      decode({"--ids", "5", "--placeholder", "5", "--embeddings", folder / "rows.safetensors"});
  EXPECT_EQ(flat.code, 2);
  EXPECT_THAT(flat.err, ::testing::HasSubstr("this model's tokens have one position each"));
}

}  // namespace
}  // namespace lamina::cli
