// lamina config import: checks of the run file that it prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/trained_run.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Finished import_qwen(std::vector<std::string> settings) {
  std::vector<std::string> words = {"config", "import", LAMINA_SOURCE_DIR "/tests/imports/base.yml",
                                    "decoder_block=qwen3", "base_num_decoder_layers=2"};
  words.insert(words.end(), settings.begin(), settings.end());
  return lamina_program(words);
}

TEST(ConfigImport, RunFilesOfModelsAndAdaptersPass) {
  EXPECT_EQ(import_qwen({}).code, 0);
  const Finished adapters =
      import_qwen({"lora.enable_lora=true", "lora.lora_rank=4", "lora.lora_alpha=8.0"});
  EXPECT_EQ(adapters.code, 0) << adapters.err;
  EXPECT_THAT(adapters.out, HasSubstr("target_modules = [\"q_proj\", "));
  const Finished mask = import_qwen({"adamw_mask=[bias]"});  // the model has none
  EXPECT_EQ(mask.code, 0) << mask.err;
}

TEST(ConfigImport, TheRunIsCheckedAsTrainingChecksIt) {
  const Finished positions = import_qwen({"trainable_position_size=64", "max_target_length=65"});
  EXPECT_EQ(positions.code, 2);
  EXPECT_THAT(positions.err,
              HasSubstr("error: max_target_length=65: data.sequence_length: is 65; the model has "
                        "learned positions for 64 tokens"));
  EXPECT_THAT(positions.out, IsEmpty());
  EXPECT_EQ(import_qwen({"trainable_position_size=64", "max_target_length=64"}).code, 0);
  const Finished frozen = import_qwen({"trainable_parameters_mask=[bias]"});
  EXPECT_EQ(frozen.code, 2);
  EXPECT_THAT(frozen.err, HasSubstr("optimizer.groups: group 1, {match = \"*\"}, has no effect"));
}

}  // namespace
}  // namespace lamina::cli
