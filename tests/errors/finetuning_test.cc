// Mistakes in the start of a run: train.from and train.fresh.
#include <filesystem>

#include "errors/workplace.h"
#include "support/published_model.h"

namespace lamina::testing {
namespace {

// A run of a copied model, model/, on text.txt.
class FinetuningPlace : public Workplace {
 public:
  FinetuningPlace() {
    add_published_model(folder(), golden_model("llama3_gqa"));
    write("text.txt", text_of_words(30));
    write("run.toml",
          "[data]\ntrain = [\"text.txt\"]\nsequence_length = 12\n[train]\nfrom = \"model\"\n"
          "steps = 1\nbatch_size = 2\n[run]\nout = \"out\"\n");
  }
};

TEST(FinetuningErrors, TheModelIsTheDirectorys) {
  const FinetuningPlace place;
  place.write("other/tokenizer.json", tokenizer_of_words(3));
  std::string changed = tokenizer_of_words();
  changed.replace(changed.find("deep"), 4, "keep");
  place.write("changed/tokenizer.json", changed);
  for (const Mistake& mistake : std::vector<Mistake>{
           {{"train", "run.toml", "--set", "family=gemma"},
            2,
            {"family: is 'gemma', but ", "is of family 'llama2'", "remove it"}},
           {{"train", "run.toml", "--set", "model.rope_theta=10000.0"},
            2,
            {"run.toml:5: train.from: ", "model is not the model that [model] describes",
             "rope_theta is 10000.0 at --set model.rope_theta=10000.0, but 500000.0 there",
             "list these in train.fresh"}},
           {{"train", "run.toml", "--set", "model.num_hidden_layers=2"},
            2,
            {"num_hidden_layers is 2 at --set model.num_hidden_layers=2, but 3 there"}},
           {{"train", "run.toml", "--set", "model.num_hidden_layers=2", "--set",
             "train.fresh=[\"embed.weight\"]"},
            4,
            {"train.from: ", "model has 9 tensors that the model has no use for",
             "'layers.2.attention.wk.weight'"}},
           {{"train", "run.toml", "--set", "data.sequence_length=513"},
            2,
            {"data.sequence_length: is 513; the model is made for sequences of 512 tokens\n"
             "  max_position_embeddings = 512 (",
             "model/config.json:13)\n  use at most 512, or raise the value in that file"}},
           {{"train", "run.toml", "--set", "data.tokenizer=changed"},
            2,
            {"data.tokenizer: gives token 8 the text 'keep', but in ", "it is 'deep'"}},
           {{"train", "run.toml", "--set", "train.from=nowhere"},
            4,
            {"--set train.from=nowhere: train.from: ",
             "nowhere: no such file or directory; expected a Hugging Face directory"}},
           {{"train", "run.toml", "--set", "train.from=model/config.json"},
            4,
            {"train.from: ", "describes a model but has no weights"}},
           {{"train", "run.toml", "--set", "data.tokenizer=byte"},
            2,
            {"data.tokenizer: gives token 0 the text"}}})
    place.expect(mistake);
  // Tokens may be added after the existing ones.
  const Finished f =
      place.lamina({"train", "run.toml", "--quiet", "--set", "data.tokenizer=other"});
  EXPECT_EQ(f.code, 0) << f.err;
}

TEST(FinetuningErrors, ATokenizerThatNeverExistedIsNotCalledRemoved) {
  const FinetuningPlace place;
  std::filesystem::remove(place.path("model/tokenizer.json"));
  place.expect({{"train", "run.toml", "--set", "data.tokenizer=bytes"},
                5,
                {"bytes: no such directory; expected a model directory with its tokenizer",
                 "did you mean \"byte\"?"}});
}

// The vocabulary is small, so that only the tokenizer of the directory shows that it was forgotten.
TEST(FinetuningErrors, WarnsIfTheWeightsOfADirectoryAreNotRead) {
  const FinetuningPlace place;
  place.write("described.toml",
              "model = \"model\"\n[data]\ntrain = [\"text.txt\"]\nsequence_length = 12\n[train]\n"
              "steps = 1\nbatch_size = 2\n[run]\nout = \"out\"\n");
  const std::vector<std::string> words = {"train", "described.toml", "--dry-run", "--set",
                                          "model.vocab_size=300"};
  const Finished f = place.lamina(words);
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err,
              ::testing::ContainsRegex("the weights in .*model are not read: training starts "
                                       "from random ones; train.from reads them"));
  EXPECT_THAT(f.err,
              ::testing::ContainsRegex("warning: 'data.tokenizer' is not set: text is read as "
                                       "bytes, with 258 of the model's 300 ids; set it to "
                                       "\".*model\", or to \"byte\""));
  std::vector<std::string> chosen = words;
  chosen.insert(chosen.end(), {"--set", "data.tokenizer=byte"});
  EXPECT_THAT(place.lamina(chosen).err,
              ::testing::Not(::testing::HasSubstr("'data.tokenizer' is not set")));
}

TEST(FinetuningErrors, AMissingStartIsAtItsLine) {
  const FinetuningPlace place;
  place.write("gone.toml",
              "[data]\ntrain = [\"text.txt\"]\n[train]\nfrom = \"gone\"\n[run]\nout = \"out\"\n");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"train", "gone.toml"}, {"data", "show", "gone.toml"}, {"plan", "gone.toml"}})
    place.expect({words,
                  4,
                  {"gone.toml:4: train.from: gone: no such file or directory; expected ",
                   "\n  check the path; it is relative to the folder of the run file\n"}});
}

// Only a path that may be a name on the Hub has the advice about downloads.
TEST(FinetuningErrors, AMissingModelInAnExistingFolderIsNoDownload) {
  const FinetuningPlace place;
  const Finished hub = place.lamina({"decode", "-m", "org/name", "-p", "a"});
  EXPECT_EQ(hub.code, 4);
  EXPECT_THAT(hub.err, ::testing::HasSubstr("\n  lamina downloads no models: "));
  const Finished file = place.lamina({"decode", "-m", "model/model.safetensors", "-p", "a"});
  EXPECT_EQ(file.code, 4);
  EXPECT_THAT(file.err, ::testing::HasSubstr("model/model.safetensors: is a file; expected"));
  EXPECT_THAT(file.err, ::testing::HasSubstr("\n  give its folder, model\n"));
  const Finished typo = place.lamina({"decode", "-m", "model/step", "-p", "a"});
  EXPECT_EQ(typo.code, 4);
  EXPECT_THAT(typo.err, ::testing::HasSubstr("model/step: no such file or directory"));
  EXPECT_THAT(typo.err, ::testing::Not(::testing::HasSubstr("downloads")));
}

TEST(FinetuningErrors, TheReasonAgainstAnotherFamilyIsItsFirstProblem) {
  const Workplace place;
  place.train();
  place.write("next.toml",
              "family = \"qwen3\"\n[data]\ntrain = [\"text.txt\"]\nsequence_length = 24\n"
              "[train]\nfrom = \"out\"\nsteps = 1\nbatch_size = 2\n[run]\nout = \"next\"\n");
  place.expect({{"train", "next.toml"},
                2,
                {"next.toml:1: family: is 'qwen3', but out is of family 'llama2'\n"
                 "  it cannot be 'qwen3': out/checkpoints/step-00000004/model.toml:",
                 ": unknown key 'model.rope_interleave'\n"
                 "  remove it: with train.from the directory defines the family\n"}});
}

TEST(FinetuningErrors, FreshNamesMissingParameters) {
  const FinetuningPlace place;
  const std::string grown = "model.vocab_size=160";
  for (const Mistake& mistake : std::vector<Mistake>{
           {{"train", "run.toml", "--set", "train.fresh=[\"embed.weight\"]"},
            2,
            {"train.fresh: 'embed.weight' names no tensor that ", "model lacks",
             "model has every tensor of the model; remove it"}},
           {{"train", "run.toml", "--set", grown, "--set", "train.fresh=[\"embd.weight\"]"},
            4,
            {"lacks 1 tensor of the model", "'embed.weight': 11 of its 160 rows",
             "name in train.fresh those that are to start fresh"}},
           {{"train", "run.toml", "--set", grown, "--set",
             "train.fresh=[\"embed.weight\", \"embd.weight\"]"},
            2,
            {"'embd.weight' names no tensor that ", "did you mean 'embed.weight'?"}},
           {{"train", "run.toml", "--set", "model.vocab_size=100", "--set",
             "train.fresh=[\"embed.weight\"]"},
            4,
            {"has tensors of other shapes than the model",
             "'embed.weight' is [149, 48] there and [100, 48] in the model"}}})
    place.expect(mistake);
  place.write("plain.toml",
              "family = \"llama2\"\n[model]\nvocab_size = 258\n[data]\ntrain = "
              "[\"text.txt\"]\n[train]\nfresh = [\"embed.weight\"]\n");
  place.expect({{"train", "plain.toml"},
                2,
                {"plain.toml:7: 'train.fresh' has no effect without 'train.from'"}});
}

}  // namespace
}  // namespace lamina::testing
