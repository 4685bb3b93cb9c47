// Sets of safetensors files: one lookup for one or many files, written and read back.
#include "io/weight_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "io/foreign_file.h"
#include "io/hf_directory.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::io {
namespace {

using testing::TempDir;

// Every tensor's bytes are 0, 1, 2, ... plus the length of its name.
std::span<const std::byte> counting(const TensorSpec& spec) {
  static std::vector<std::byte> bytes;
  bytes.resize(num_bytes(spec));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i + spec.name.size());
  return bytes;
}

const std::vector<TensorSpec> kSpecs = {
    {"layers.0.w", DType::f32, {2, 3}}, {"layers.0.b", DType::bf16, {3}},
    {"layers.1.w", DType::f32, {2, 3}}, {"layers.1.bb", DType::u8, {}},
    {"empty", DType::f32, {0, 4}},
};

void expect_same(const WeightFiles& weights) {
  EXPECT_EQ(weights.names().size(), kSpecs.size());
  for (const TensorSpec& spec : kSpecs) {
    const TensorView view = weights.tensor(spec.name);
    EXPECT_EQ(view.dtype, spec.dtype);
    EXPECT_EQ(view.shape, spec.shape);
    const auto expected = counting(spec);
    EXPECT_TRUE(std::equal(view.bytes.begin(), view.bytes.end(), expected.begin(), expected.end()));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.bytes.data()) %
                  static_cast<unsigned>(size_bytes(spec.dtype)),
              0u);
  }
}

TEST(WeightFiles, Example) {
  TempDir dir;
  EXPECT_EQ(write_weight_files(dir.path(), kSpecs, counting).size(), 1u);
  expect_same(WeightFiles(dir.path()));
  expect_same(WeightFiles(dir / "model.safetensors"));
}

TEST(WeightFiles, ShardsReadBackAsOne) {
  TempDir dir;
  const auto files = write_weight_files(dir.path(), kSpecs, counting, {.max_shard_bytes = 30});
  EXPECT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].name, "model-00001-of-00002.safetensors");
  expect_same(WeightFiles(dir.path()));
  expect_same(WeightFiles(dir / "model.safetensors.index.json"));
}

TEST(WeightFiles, TheSameTensorsInAnyOrderGiveTheSameFile) {
  TempDir dir;
  std::vector<TensorSpec> reversed(kSpecs.rbegin(), kSpecs.rend());
  const FileDigest a = write_safetensors(dir / "a", kSpecs, {{"format", "pt"}}, counting);
  const FileDigest b = write_safetensors(dir / "b", reversed, {{"format", "pt"}}, counting);
  EXPECT_EQ(a.xxh3_128, b.xxh3_128);
  EXPECT_EQ(dir.read("a"), dir.read("b"));
}

TEST(WeightFiles, RefusesTwoTensorsOfOneName) {
  TempDir dir;
  EXPECT_USER_ERROR(
      write_safetensors(dir / "a", {{"w", DType::u8, {1}}, {"w", DType::u8, {2}}}, {}, counting),
      ExitCode::checkpoint, dir / "a" + ": two tensors are named 'w'; names must be unique");
}

TEST(WeightFiles, NamesTheContentsInsteadOfWeights) {
  TempDir dir;
  EXPECT_USER_ERROR(WeightFiles(dir / "none"), ExitCode::checkpoint,
                    dir / "none" +
                        ": does not exist; expected a model directory or a safetensors "
                        "file\n  check the path");
  EXPECT_ERROR_SAYS(WeightFiles(dir.path()), ExitCode::checkpoint, "it is empty");
  dir.write("pytorch_model.bin", "x");
  EXPECT_ERROR_SAYS(WeightFiles(dir.path()), ExitCode::checkpoint,
                    "has neither model.safetensors nor model.safetensors.index.json\n"
                    "  'pytorch_model.bin' is a PyTorch pickle");
}

TEST(WeightFiles, AHalfDownloadedDirectorySaysSo) {
  const auto hint = [](std::string_view name, std::string_view bytes) {
    TempDir dir;
    dir.write("config.json", "{}");
    dir.write(name, bytes);
    try {
      WeightFiles weights(dir.path());
    } catch (const UserError& e) {
      return e.text().notes.back();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(hint("model.safetensors.incomplete", "x"),
            "'model.safetensors.incomplete' is an unfinished download: start it again");
  EXPECT_EQ(hint("model-00001-of-00002.safetensors.aria2", ""),
            "'model-00001-of-00002.safetensors.aria2' is an unfinished download: start it again");
  EXPECT_EQ(hint("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0"),
            "this looks like a Git LFS pointer: fetch the file itself with `git lfs pull`");
  EXPECT_EQ(hint("model.safetensors", "family = \"llama2\"\n"),
            "this looks like a text file: give a file or directory with weights");
  EXPECT_EQ(hint("pytorch_model.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0"),
            "'pytorch_model.bin' is a Git LFS pointer: fetch the files themselves with `git lfs "
            "pull`");
  EXPECT_EQ(hint("model-00001-of-00002.safetensors", "x"),
            "'model-00001-of-00002.safetensors' is a part of a model, but the index of its parts "
            "(*.safetensors.index.json) is missing: download the rest");
  EXPECT_EQ(hint("model-00001-of-00001.safetensors", "x"),
            "it contains 'model-00001-of-00001.safetensors': rename it to model.safetensors");
  EXPECT_EQ(hint("weights.safetensors", "x"),
            "it contains 'weights.safetensors': rename it to model.safetensors");
}

TEST(WeightFiles, AnAdapterWithoutItsModelIsRecognised) {
  TempDir dir;
  dir.write("adapter_model.safetensors", "x");
  dir.write("adapter_config.json", "{}");
  EXPECT_EQ(contents_in_words(dir.path()),
            "it contains an adapter without its model: give the model, and the adapter with "
            "--adapter where the command has it");
}

TEST(WeightFiles, AModelWithoutItsConfigIsRecognised) {
  TempDir dir;
  dir.write("model.safetensors", "x");
  EXPECT_EQ(contents_in_words(dir.path()),
            "it contains 'model.safetensors', but no config.json: download that file too");
  dir.write("config.json", "{}");
  EXPECT_EQ(contents_in_words(dir.path()), "it contains config.json, model.safetensors");
}

// A sharded checkpoint whose index is replaced by `weight_map`.
std::string index_error(std::string_view weight_map) {
  TempDir dir;
  write_weight_files(dir.path(), {{"a", DType::u8, {1}}, {"b", DType::u8, {1}}}, counting,
                     {.max_shard_bytes = 1});
  dir.write("model.safetensors.index.json", fmt::format("{{\"weight_map\":{}}}", weight_map));
  try {
    WeightFiles weights(dir.path());
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ExitCode::checkpoint);
    return std::string(e.what()).substr(dir.path().size() + 1);
  }
  return "accepted";
}

TEST(WeightFiles, AnIndexMustMatchItsShards) {
  EXPECT_EQ(index_error(R"({"a":"model-00001-of-00002.safetensors","b":"gone.safetensors"})"),
            "model.safetensors.index.json: 1 of its 2 shards are missing: 'gone.safetensors'\n"
            "  download the missing files into the same directory");
}

TEST(WeightFiles, AnIndexMayHaveInfiniteNumbers) {
  EXPECT_EQ(index_error(R"({"a": "model-00001-of-00002.safetensors",
                            "b": "model-00002-of-00002.safetensors"}, "metadata": {"loss": NaN})"),
            "accepted");
}

TEST(WeightFiles, AMissingTensorOfAShardIsAnErrorAtItsUse) {
  TempDir dir;
  write_safetensors(dir / "x.safetensors", {{"a", DType::u8, {1}}}, {}, counting);
  write_safetensors(dir / "y.safetensors", {{"b", DType::u8, {1}}}, {}, counting);
  dir.write("model.safetensors.index.json",
            R"({"weight_map":{"a":"x.safetensors","b":"x.safetensors","c":"y.safetensors"}})");
  const WeightFiles weights(dir.path());
  EXPECT_EQ(weights.names(), std::vector<std::string_view>{"a"});
  for (const auto& [tensor, shard] : {std::pair("b", "x"), std::pair("c", "y")})
    EXPECT_EQ(weights.shard_without(tensor), dir / shard + ".safetensors");
  EXPECT_EQ(weights.shard_with("b"), dir / "y.safetensors");
  EXPECT_EQ(weights.shard_with("c"), "");
  EXPECT_EQ(weights.shard_note("a"), "");
  EXPECT_ERROR_SAYS(static_cast<void>(weights.tensor("b")), ExitCode::checkpoint,
                    fmt::format("tensor 'b' is missing\n"
                                "  the index assigns it to '{}', but it is in '{}': download the "
                                "index again",
                                dir / "x.safetensors", dir / "y.safetensors"));
  EXPECT_ERROR_SAYS(static_cast<void>(weights.tensor("c")), ExitCode::checkpoint,
                    fmt::format("tensor 'c' is missing\n"
                                "  the index assigns it to '{}', which does not contain it: "
                                "download that file again",
                                dir / "y.safetensors"));
  EXPECT_ERROR_SAYS(static_cast<void>(weights.contains("b")), ExitCode::checkpoint,
                    "tensor 'b' is missing\n  the index assigns it to '");
  EXPECT_ERROR_SAYS(weights.check_absent("c"), ExitCode::checkpoint, "tensor 'c' is missing\n");
  EXPECT_FALSE(weights.contains("d"));
  weights.check_absent("d");
  EXPECT_ERROR_SAYS(weights.check_index(), ExitCode::checkpoint, "tensor 'b' is missing\n");
}

TEST(WeightFiles, TheIndexDecidesWhichTensorsReplaceOthers) {
  TempDir dir;
  write_safetensors(dir / "model.safetensors", {{"a", DType::u8, {1}}, {"b", DType::u8, {1}}}, {},
                    counting);
  write_safetensors(dir / "x.safetensors", {{"a", DType::u8, {2}}, {"c", DType::u8, {2}}}, {},
                    counting);
  write_safetensors(dir / "y.safetensors", {{"a", DType::u8, {3}}}, {}, counting);
  dir.write("ema.safetensors.index.json",
            R"({"weight_map":{"a":"x.safetensors","c":"y.safetensors","d":"y.safetensors"}})");
  WeightFiles weights(dir.path());
  weights.replace(dir.path(), "ema");  // neither c nor d is a tensor of the model
  EXPECT_EQ(weights.tensor("a").shape, Shape({2}));
  EXPECT_EQ(weights.tensor("b").shape, Shape({1}));
  dir.write("ema.safetensors.index.json",
            R"({"weight_map":{"a":"x.safetensors","b":"y.safetensors"}})");
  WeightFiles damaged(dir.path());
  EXPECT_ERROR_SAYS(damaged.replace(dir.path(), "ema"), ExitCode::checkpoint,
                    fmt::format("tensor 'b' is missing\n"
                                "  the index assigns it to '{}', which does not contain it: "
                                "download that file again",
                                dir / "y.safetensors"));
}

TEST(WeightFiles, AnIndexMayNameTensorsThatNoShardHas) {
  TempDir dir;
  write_safetensors(dir / "x.safetensors", {{"a", DType::u8, {1}}}, {}, counting);
  dir.write("model.safetensors.index.json",
            R"({"weight_map":{"a":"x.safetensors","c":"x.safetensors"}})");
  const WeightFiles weights(dir.path());
  weights.check_index();
  EXPECT_EQ(weights.names_without_shard(), std::vector<std::string_view>{"c"});
}

TEST(WeightFiles, AnIndexMayNotLeaveItsDirectory) {
  for (const char* name : {"../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", ""})
    EXPECT_THAT(index_error(fmt::format("{{\"a\":\"{}\"}}", name)),
                ::testing::HasSubstr("must be the name of a file beside the index"));
}

TEST(WeightFiles, TheIndexDecidesWhichShardHasATensor) {
  TempDir dir;
  write_safetensors(dir / "x.safetensors", {{"a", DType::u8, {1}}, {"b", DType::u8, {1}}}, {},
                    counting);
  write_safetensors(dir / "y.safetensors", {{"a", DType::u8, {2}}, {"b", DType::u8, {2}}}, {},
                    counting);
  dir.write("model.safetensors.index.json",
            R"({"weight_map":{"a":"x.safetensors","b":"y.safetensors"}})");
  const WeightFiles weights(dir.path());
  EXPECT_EQ(weights.tensor("a").shape, Shape({1}));
  EXPECT_EQ(weights.tensor("b").shape, Shape({2}));
  EXPECT_EQ(weights.names().size(), 2u);
}

TEST(WeightFiles, ATensorInTwoShardsThatTheIndexDoesNotNameIsRefused) {
  TempDir dir;
  write_safetensors(dir / "x.safetensors", {{"a", DType::u8, {1}}, {"c", DType::u8, {1}}}, {},
                    counting);
  write_safetensors(dir / "y.safetensors", {{"c", DType::u8, {1}}, {"b", DType::u8, {1}}}, {},
                    counting);
  dir.write("model.safetensors.index.json",
            R"({"weight_map":{"a":"x.safetensors","b":"y.safetensors"}})");
  EXPECT_ERROR_SAYS(
      WeightFiles(dir.path()), ExitCode::checkpoint,
      "y.safetensors: tensor 'c' is also in '" + dir.path() + "/x.safetensors'; every tensor");
}

TEST(WeightFiles, AFolderOfTheHubsCacheNamesItsSnapshot) {
  TempDir dir;
  std::filesystem::create_directories(dir / "models--a--b/snapshots/0123");
  EXPECT_ERROR_SAYS(WeightFiles(dir / "models--a--b"), ExitCode::checkpoint,
                    "it is a folder of the Hub's cache; use the model inside it: " + dir.path() +
                        "/models--a--b/snapshots/0123");
}

TEST(HfDirectory, Example) {
  TempDir dir;
  dir.write("config.json", R"({"model_type":"x","eos_token_id":2})");
  dir.write("tokenizer.json", "{}");
  EXPECT_EQ(HfDirectory(dir.path()).eos_token_ids(), std::vector<std::int64_t>{2});
  dir.write("generation_config.json", R"({"eos_token_id":[7,8]})");
  const HfDirectory model(dir.path());
  EXPECT_EQ(model.config().at("model_type").as_string(), "x");
  EXPECT_EQ(model.eos_token_ids(), (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(side_files(dir.path()),
            (std::vector<std::string>{"generation_config.json", "tokenizer.json"}));
}

TEST(HfDirectory, FindsTokensInWrappedConfigs) {
  TempDir dir;
  dir.write("config.json",
            R"({"image_token_id":7,"text_config":{"eos_token_id":[1,2],"image_token_index":7}})");
  EXPECT_EQ(HfDirectory(dir.path()).eos_token_ids(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(HfDirectory(dir.path()).placeholder_token_ids(), std::vector<std::int64_t>{7});
  dir.write("config.json", R"({"thinker_config":{"image_token_index":7,"audio_token_index":8,
            "text_config":{"eos_token_id":3}}})");
  EXPECT_EQ(HfDirectory(dir.path()).placeholder_token_ids(), (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(HfDirectory(dir.path()).eos_token_ids(), std::vector<std::int64_t>{3});
}

TEST(HfDirectory, SideFilesAreCopiedUnchanged) {
  TempDir from, to;
  from.write("tokenizer.json", "{\"a\": 1}\n");
  from.write("secret.txt", "x");
  EXPECT_EQ(copy_side_files(from.path(), to.path()).size(), 1u);
  EXPECT_EQ(to.read("tokenizer.json"), "{\"a\": 1}\n");
}

// Training removes old checkpoints while others read them.
TEST(HfDirectory, ARemovedDirectoryIsNotOneWithoutSideFiles) {
  TempDir dir;
  EXPECT_ERROR_SAYS(static_cast<void>(side_files(dir / "gone")), ExitCode::checkpoint,
                    dir / "gone" + ": was removed while its files were read")
}

TEST(HfDirectory, AdditionalChatTemplatesAreSideFiles) {
  TempDir from, to;
  from.write("additional_chat_templates/tool_use.jinja", "tools");
  from.write("additional_chat_templates/notes.txt", "x");
  EXPECT_EQ(side_files(from.path()),
            std::vector<std::string>{"additional_chat_templates/tool_use.jinja"});
  EXPECT_EQ(copy_side_files(from.path(), to.path()).at(0).name,
            "additional_chat_templates/tool_use.jinja");
  EXPECT_EQ(to.read("additional_chat_templates/tool_use.jinja"), "tools");
}

// An export of a foreign model must not copy private files of this machine.
TEST(HfDirectory, LinksToFilesElsewhereAreNotCopied) {
  TempDir hub;
  const std::string secret = hub.write("secret", "key");
  hub.write("model/tokenizer.json", "{}");
  std::filesystem::create_symlink(secret, hub / "model/chat_template.jinja");
  std::filesystem::create_symlink("tokenizer.json", hub / "model/vocab.json");
  EXPECT_EQ(side_files(hub / "model"), (std::vector<std::string>{"tokenizer.json", "vocab.json"}));
  // The cache of the Hub keeps the files of a snapshot in another folder.
  hub.write("models--a--b/blobs/0123", "{}");
  std::filesystem::create_directories(hub / "models--a--b/snapshots/4567");
  std::filesystem::create_symlink("../../blobs/0123",
                                  hub / "models--a--b/snapshots/4567/tokenizer.json");
  EXPECT_EQ(side_files(hub / "models--a--b/snapshots/4567"),
            std::vector<std::string>{"tokenizer.json"});
  // The model directory itself may be a link.
  std::filesystem::create_directory_symlink(hub / "model", hub / "linked");
  EXPECT_EQ(side_files(hub / "linked"), (std::vector<std::string>{"tokenizer.json", "vocab.json"}));
}

TEST(HfDirectory, NamesMissingFiles) {
  TempDir dir;
  EXPECT_ERROR_SAYS(HfDirectory(dir / "nowhere"), ExitCode::checkpoint,
                    "nowhere: does not exist; expected a model directory");
  EXPECT_ERROR_SAYS(HfDirectory(dir.path()), ExitCode::checkpoint,
                    "has no config.json; expected a Hugging Face model directory\n"
                    "  it is empty");
  dir.write("config.json", "[1]");
  EXPECT_ERROR_SAYS(HfDirectory(dir.path()), ExitCode::checkpoint, "must be an object");
  dir.write("config.json", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_ERROR_SAYS(HfDirectory(dir.path()), ExitCode::checkpoint,
                    "config.json: is a Git LFS pointer instead of the file\n"
                    "  fetch the files themselves with `git lfs pull`");
}

TEST(HfDirectory, TokenIdsOutsideOfInt32AreRefused) {
  TempDir dir;
  dir.write("config.json", "{\"model_type\":\"x\",\n\"eos_token_id\":4294967465}");
  EXPECT_USER_ERROR(HfDirectory(dir.path()).eos_token_ids(), ExitCode::checkpoint,
                    dir.path() +
                        "/config.json:2: 'eos_token_id' must be a token id from 0 to 2147483647, "
                        "got 4294967465");
  dir.write("generation_config.json", R"({"eos_token_id":[2,-3]})");
  EXPECT_ERROR_SAYS(HfDirectory(dir.path()).eos_token_ids(), ExitCode::checkpoint,
                    "'eos_token_id[1]' must be a token id from 0 to 2147483647, got -3");
  EXPECT_EQ(HfDirectory(dir.path()).placeholder_token_ids().size(), 0u);
}

}  // namespace
}  // namespace lamina::io
