// Invalid settings of Engram: the message names the mistake and the expected value.
#include "errors/workplace.h"
#include "support/paths.h"

namespace lamina::testing {
namespace {

const std::vector<std::string> kRight = {"engram_layers=[1]", "engram_vocab_bases=[31, 37]",
                                         "engram_head_dim=4", "engram_num_heads=2"};

// `lamina train` of run.toml with Engram, then these settings.
std::vector<std::string> with(const std::vector<std::string>& settings,
                              const std::vector<std::string>& first = kRight) {
  std::vector<std::string> words = {"train", "run.toml"};
  for (const auto& list : {first, settings})
    for (const std::string& setting : list) {
      words.emplace_back("--set");
      words.push_back("model." + setting);
    }
  return words;
}

TEST(EngramErrors, LayersOutsideOfTheStackOrTwiceAreRefused) {
  Workplace w;
  w.expect({with({"engram_layers=[0, 2]"}),
            2,
            {"'engram_layers'", "layer 2 is outside the stack; there are 2 layers, from 0"}});
  w.expect({with({"engram_layers=[1, 0, 1]"}), 2, {"'engram_layers'", "layer 1 is named twice"}});
  w.expect({with({"engram_layers=[-1]"}), 2, {"model.engram_layers[0]", "at least 0", "got -1"}});
  w.expect({with({"engram_layer=[1]"}),
            2,
            {"unknown key 'model.engram_layer'", "did you mean 'model.engram_layers'?"}});
  w.expect({with({"engram_head_dim=4"}, {}),
            2,
            {"'model.engram_head_dim' has no effect, because 'engram_layers' lists no layer",
             "list layers in 'model.engram_layers', or remove it"}});
}

TEST(EngramErrors, WrongSizesOfTablesNameTheKey) {
  Workplace w;
  w.expect({with({"engram_vocab_bases=[31]"}),
            2,
            {"'engram_vocab_bases'",
             "must have one element for each length of n-grams from 2 to 3, so 2; got 1",
             "engram_max_ngram_size = 3"}});
  w.expect({with({"engram_vocab_bases=[31, 1]"}),
            2,
            {"model.engram_vocab_bases[1]", "at least 2", "got 1"}});
  w.expect({with({"engram_vocab_bases=[2000000000, 1500000000]"}),
            2,
            {"'engram_vocab_bases'", "more than 7e+09 rows", "the maximum is 2^31 - 1",
             "engram_num_heads = 2"}});
  for (const char* key : {"head_dim", "num_heads", "kernel_size"})
    w.expect({with({std::string("engram_") + key + "=0"}),
              2,
              {std::string("model.engram_") + key, "at least 1", "got 0"}});
  w.expect({with({"engram_max_ngram_size=1"}), 2, {"engram_max_ngram_size", "at least 2"}});
  w.expect({with({"engram_seed=-3"}), 2, {"engram_seed", "at least 0"}});
  w.expect({with({"engram_norm_eps=0.0"}), 2, {"engram_norm_eps", "greater than 0"}});
}

// N-grams are made from the tokenizer's tokens, so a model without a tokenizer is refused.
TEST(EngramErrors, AModelWithoutATokenizerIsRefused) {
  Workplace w;
  w.write("model.toml", R"(family = "llama2"
[model]
vocab_size = 258
hidden_size = 16
intermediate_size = 24
num_hidden_layers = 2
num_attention_heads = 2
engram_layers = [1]
engram_vocab_bases = [31, 37]
)");
  w.expect({{"decode", "-m", "model.toml", "-p", "a"},
            2,
            {"model.toml:8: 'engram_layers'", "there is no tokenizer",
             "give a directory that has a tokenizer beside the model"}});
}

// Without a padding token, the n-grams at the start of a text are undefined.
TEST(EngramErrors, ATokenizerWithoutAPaddingTokenIsRefused) {
  Workplace w;
  std::filesystem::create_directory(w.path("tokenizer"));
  std::filesystem::copy(std::filesystem::path(LAMINA_SOURCE_DIR) /
                            "tests/golden/maxtext/engram_tokenizer/tokenizer.json",
                        w.path("tokenizer/tokenizer.json"));
  w.write("tokenizer/tokenizer_config.json", "{}");
  std::vector<std::string> words = with({});
  words.insert(words.end(), {"--set", "data.tokenizer=\"tokenizer\""});
  w.expect({words, 2, {"'engram_layers'", "padding token, and it has none", "pad_token"}});
}

}  // namespace
}  // namespace lamina::testing
