// Mistakes in decoding and verifying: paths that are not models, prompts that do not fit.
#include "errors/workplace.h"

#include <fstream>

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

std::string ids(int count) {
  std::string out = "1";
  for (int i = 2; i <= count; ++i) out.append(1, ',').append(std::to_string(i));
  return out;
}

TEST(DecodeErrors, AModelIsNeeded) {
  Workplace w;
  fs::create_directory(w.path("empty"));
  w.write("model.toml",
          "family = \"simple\"\n[model]\nvocab_size = 8\nhidden_size = 4\n"
          "num_hidden_layers = 1\n");
  fs::create_symlink("loop.toml", w.path("loop.toml"));
  const Mistake mistakes[] = {
      {{"decode", "-p", "x"}, 2, {"missing option '--model DIR'", "lamina decode --help"}},
      {{"decode", "-m", "nowhere", "-p", "x"},
       4,
       {"nowhere: no such file or directory", "a Hugging Face directory"}},
      {{"decode", "-m", "empty", "-p", "x"},
       4,
       {"empty: contains no model: neither config.json, model.toml nor checkpoints",
        "it is empty"}},
      {{"decode", "-m", "model.toml", "-p", "x"},
       4,
       {"model.toml: describes a model but has no weights",
        "expected a directory with a checkpoint"}},
      {{"decode", "-m", "run.toml", "-p", "x"},
       2,
       {"run.toml: is a run file; expected a model", "give its run directory, "}},
      {{"decode", "-m", "loop.toml", "-p", "x"},
       2,
       {"loop.toml: cannot be read: too many levels of symbolic links"}},
  };
  for (const Mistake& m : mistakes) w.expect(m);
}

TEST(DecodeErrors, WeightsMustBelongToTheConfig) {
  Workplace w;
  fs::path from = golden_model("llama3_gqa");
  fs::create_directory(w.path("m"));
  fs::copy(from / "config.json", w.path("m/config.json"));
  w.expect({{"decode", "-m", "m", "--ids", "1"},
            4,
            {"m: has neither model.safetensors nor model.safetensors.index.json",
             "it contains config.json"}});
  fs::copy(from / "model.safetensors", w.path("m/model.safetensors"));
  fs::permissions(w.path("m/model.safetensors"), fs::perms::owner_all);
  fs::permissions(w.path("m/config.json"), fs::perms::owner_all);
  std::string config = w.read("m/config.json");
  auto with = [&](const std::string& key, const std::string& value) {
    std::size_t at = config.find("\"" + key + "\": ") + key.size() + 4;
    std::string changed = config;
    changed.replace(at, config.find_first_of(",\n}", at) - at, value);
    return changed;
  };
  w.write("m/config.json", with("num_hidden_layers", "4"));
  w.expect({{"decode", "-m", "m", "--ids", "1"},
            4,
            {"tensor 'model.layers.3.self_attn.k_proj.weight' is missing",
             "for parameter 'layers.3.attention.wk.weight'"}});
  w.write("m/config.json", with("num_hidden_layers", "2"));
  w.expect({{"decode", "-m", "m", "--ids", "1"},
            4,
            {"tensors that family 'llama2' does not use, eg 'model.layers.2.",
             "num_hidden_layers is 2"}});
  w.write("m/config.json", with("vocab_size", "150"));
  w.expect({{"decode", "-m", "m", "--ids", "1"},
            4,
            {"tensor 'model.embed_tokens.weight' is [149, 48], but the config requires [150, "
             "48]"}});
  w.write("m/config.json", "{\"model_type\": \"nobody\", \"architectures\": [\"Nobody\"]}");
  w.expect({{"decode", "-m", "m", "--ids", "1"}, 8, {"nobody"}});
  w.write("m/config.json", "{\"model_type\": ");
  w.expect({{"decode", "-m", "m", "--ids", "1"}, 4, {"m/config.json"}});
  w.write("m/config.json", config);
  fs::resize_file(w.path("m/model.safetensors"), 5000);
  w.expect({{"decode", "-m", "m", "--ids", "1"},
            4,
            {"m/model.safetensors: tensor 'model.embed_tokens.weight'", "the file has only"}});
}

TEST(DecodeErrors, InvalidPromptsAreRefused) {
  Workplace w;
  w.train();
  w.write("latin1.txt", "abc\xe9 def");
  std::string gpt2 = golden_model("gpt2_prefixed");
  const Mistake mistakes[] = {
      {{"decode", "-m", gpt2, "-p", "x"},
       4,
       {"has no tokenizer, so it cannot read text", "--ids 1,2,3"}},
      {{"decode", "-m", gpt2, "--ids", "1,2,163"},
       2,
       {"--ids: id 163 is outside the vocabulary of 163; use 0 to 162"}},
      {{"decode", "-m", gpt2, "--ids", "1,,2"}, 2, {"--ids: got '1,,2'", "eg 1,2,3"}},
      {{"decode", "-m", gpt2, "--ids=-1"}, 2, {"--ids: got '-1'"}},
      {{"decode", "-m", gpt2, "--ids", "99999999999"}, 2, {"--ids: got '99999999999'"}},
      {{"decode", "-m", "out", "-f", "nowhere.txt"},
       5,
       {"nowhere.txt: ", "no such file or directory"}},
      {{"decode", "-m", "out", "-f", "out"}, 5, {"out: ", "is a directory"}},
  };
  for (const Mistake& m : mistakes) w.expect(m);
}

TEST(DecodeErrors, APromptLongerThanTheContextIsNeverCut) {
  Workplace w;
  std::string gpt2 = golden_model("gpt2_prefixed");
  w.expect({{"decode", "-m", gpt2, "--ids", ids(70)},
            2,
            {"--ids: the prompt has 70 tokens; the context has room for 64", "shorten it"}});
  w.expect({{"decode", "-m", gpt2, "--ids", ids(20), "--ctx-size", "10"},
            2,
            {"--ids: the prompt has 20 tokens; the context has room for 10"}});
  w.expect({{"decode", "-m", gpt2, "--ids", ids(70), "--ctx-size", "100"},
            2,
            {"--ctx-size: is 100; the model has learned positions for 64 tokens"}});
}

TEST(DecodeErrors, TheEndOfTheContextIsAReasonToStop) {
  Workplace w;
  Finished f = w.lamina({"decode", "-m", golden_model("gpt2_prefixed"), "--ids", ids(60), "-n",
                         "30", "--ignore-eos", "--json"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.out, ::testing::HasSubstr("\"finish_reason\": \"context\""));
}

TEST(DecodeErrors, SamplingOptionsHaveLimits) {
  Workplace w;
  std::string model = golden_model("gpt2_prefixed");
  const Mistake mistakes[] = {
      {{"decode", "-m", model, "--ids", "1", "--temp", "-1"},
       2,
       {"'--temp' must be a number, at least 0, got -1"}},
      {{"decode", "-m", model, "--ids", "1", "--temp", "nan"}, 2, {"'--temp'", "got nan"}},
      {{"decode", "-m", model, "--ids", "1", "--top-p", "1.5"},
       2,
       {"'--top-p' must be a number, at least 0 and at most 1, got 1.5"}},
      {{"decode", "-m", model, "--ids", "1", "--min-p", "2"}, 2, {"'--min-p'", "at most 1, got 2"}},
      {{"decode", "-m", model, "--ids", "1", "--top-k", "-1"}, 2, {"'--top-k'", "got -1"}},
      {{"decode", "-m", model, "--ids", "1", "-n", "0"}, 2, {"'--max-new-tokens'", "at least 1"}},
      {{"decode", "-m", model, "--ids", "1", "--dtype", "float16"},
       2,
       {"'--dtype' must be \"float32\" or \"bfloat16\", got \"float16\""}},
  };
  for (const Mistake& m : mistakes) w.expect(m);
}

TEST(DecodeErrors, DamagedTokenizerFilesAreNamed) {
  Workplace w;
  w.train();
  std::string checkpoint = "out/checkpoints/step-00000004/";
  ASSERT_TRUE(w.exists(checkpoint + "lamina_tokenizer.json"));
  const std::string whole = w.read(checkpoint + "lamina_tokenizer.json");
  w.write(checkpoint + "lamina_tokenizer.json", "{");
  w.expect({{"decode", "-m", "out", "-p", "x"}, 4, {"lamina_tokenizer.json"}});
  w.write(checkpoint + "lamina_tokenizer.json", whole);
  w.write(checkpoint + "tokenizer.json", "{\"model\": {\"type\": \"BPE\"}}");
  w.expect(
      {{"decode", "-m", "out", "-p", "x"}, 4, {"tokenizer.json:1: 'model' lacks the key 'vocab'"}});
}

TEST(VerifyErrors, ACaseNeedsItsNumbersAndDisagreementExitsWithThree) {
  Workplace w;
  const std::string right = "expected a directory with golden.safetensors and golden.json";
  w.expect({{"verify", "nowhere"}, 4, {"nowhere: no such directory; " + right}});
  w.expect({{"verify", "text.txt"}, 4, {"text.txt: is not a directory; " + right}});
  fs::create_directory(w.path("empty"));
  w.expect({{"verify", "empty"},
            4,
            {"empty is not a golden case: it has neither golden.safetensors nor golden.json",
             "it is empty"}});
  fs::path from = golden_model("llama3_gqa");
  fs::create_directory(w.path("case"));
  for (const char* file : {"model.safetensors", "golden.safetensors", "golden.json"})
    fs::create_symlink(fs::absolute(from / file), w.path("case") / file);
  std::ifstream in(from / "config.json");
  std::string config{std::istreambuf_iterator<char>(in), {}};
  std::size_t at = config.find("\"rms_norm_eps\": ");
  ASSERT_NE(at, config.npos);
  config.replace(at, config.find(',', at) - at, "\"rms_norm_eps\": 0.1");
  w.write("case/config.json", config);
  Finished f = w.lamina({"verify", "case"});
  EXPECT_EQ(f.code, 3) << f.err;
  EXPECT_THAT(f.out, ::testing::HasSubstr("FAIL hidden.0"));
  EXPECT_THAT(f.out, ::testing::HasSubstr("the first difference is in layer 0"));
}

}  // namespace
}  // namespace lamina::testing
