// Listings of values, the resolved run file, and the reference page.
#include "config/listing.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "config/model_keys.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace lamina::config {
namespace {

const char* const kRun =
    "family = \"simple\"\n[model]\nhidden_size = 8\nrope_scaling.factor = 2.0\n[data]\n"
    "train = [\"a.txt\"]\n[train]\nsteps = 40\n";

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Listing, Example) {
  testing::TempDir folder;
  std::string run = folder.write("r.toml", kRun);
  std::string text = to_toml(list_values(load_run(run, {{"optimizer.lr=1"}, {}})));
  EXPECT_TRUE(has_line(text, "steps = 40                              # " + run + ":8")) << text;
  EXPECT_TRUE(has_line(text, "lr = 1.0                                # --set optimizer.lr=1"));
  EXPECT_TRUE(has_line(text, "rope_scaling.factor = 2.0               # " + run + ":4"));
  EXPECT_TRUE(
      has_line(text, "microbatch_size = 8                     # default: the rows of one device"));
}

TEST(Listing, JsonHasValueAndOrigin) {
  testing::TempDir folder;
  std::string text = to_json(list_values(load_run(folder.write("r.toml", kRun))));
  EXPECT_NE(text.find("\"train.steps\": {\n    \"value\": 40,\n    \"origin\": \"" +
                      (folder / "r.toml") + ":8\"\n  }"),
            text.npos)
      << text;
}

TEST(Listing, OddKeysOfConfigJsonAreQuoted) {
  testing::TempDir folder;
  folder.write("config.json", R"({"model_type": "x", "a b": 1, "list": [{"w": 2}], "a.c": 3})");
  const std::string run =
      folder.write("r.toml", "model = \"config.json\"\n[data]\ntrain = \"a.txt\"\n");
  const std::string text = to_toml(list_values(load_run(run)));
  for (const char* line : {"\n\"a b\" = 1 ", "\n\"list[]\".w = [2] ", "\na.c = 3 "})
    EXPECT_NE(text.find(line), text.npos) << line << " in\n" << text;
  EXPECT_NO_THROW(parse_toml(text, "shown", Origin::Kind::run_file));
}

TEST(Listing, AnEmptyNameIsReplacedByTheDefault) {
  testing::TempDir folder;
  const RunConfig c = load_run(folder.write("r.toml", kRun), {{"run.name="}, {}});
  const std::string text = to_toml(list_values(c));
  EXPECT_NE(text.find("\nname = \"r\" "), text.npos) << text;
  EXPECT_EQ(text.find("name = \"\""), text.npos) << text;
}

TEST(ResolvedRunFile, LoadsFromAnywhereToTheSameRun) {
  testing::TempDir folder;
  RunConfig first = load_run(folder.write("r.toml", kRun), {{"optimizer.lr=0.1"}, {}});
  Table model;
  model.add({"hidden_size", 8, {}});
  model.add({"rope_scaling.factor", 2.0, {}});
  std::string copy = folder.write("elsewhere/run.toml", resolved_run_file(first, "simple", model));
  RunConfig second = load_run(copy);
  EXPECT_EQ(second.optimizer.lr, 0.1);
  EXPECT_EQ(second.run.name, "r");
  EXPECT_TRUE(differences(first, second).empty());
}

TEST(Differences, SayWhichKeysMayChange) {
  testing::TempDir folder;
  std::string run = folder.write("r.toml", kRun);
  std::vector<Difference> found =
      differences(load_run(run), load_run(run, {{"train.steps=80", "model.hidden_size=16"}, {}}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].key, "model.hidden_size");
  EXPECT_FALSE(found[0].hot);
  EXPECT_EQ(found[1].key, "train.steps");
  EXPECT_EQ(found[1].before, "40");
  EXPECT_EQ(found[1].now, "80");
  EXPECT_TRUE(found[1].hot);
}

TEST(Differences, DropoutOfTheModelMayChange) {
  testing::TempDir folder;
  const std::string file = folder.write("r.toml", kRun);
  for (const char* key : {"model.dropout_rate", "model.attention_dropout_rate"}) {
    const auto with = [&](const char* rate) {
      return load_run(file, {{std::string(key) + "=" + rate}, {}});
    };
    const RunConfig without = load_run(file);
    EXPECT_TRUE(differences(without, with("0.0")).empty()) << key;
    EXPECT_TRUE(differences(with("0.0"), without).empty()) << key;
    const std::pair<RunConfig, RunConfig> cases[] = {
        {without, with("0.2")}, {with("0.0"), with("0.2")}, {with("0.2"), without}};
    for (const auto& [before, now] : cases) {
      const std::vector<Difference> found = differences(before, now);
      ASSERT_EQ(found.size(), 1u) << key;
      EXPECT_EQ(found[0].key, key);
      EXPECT_TRUE(found[0].hot) << key;
      EXPECT_NE(found[0].before, found[0].now) << key;
      EXPECT_TRUE(found[0].before == "0.0" || found[0].now == "0.0") << key;
    }
  }
}

TEST(Differences, PlaceOfDropoutMayChange) {
  testing::TempDir folder;
  const std::string file = folder.write("r.toml", kRun);
  const std::vector<Difference> found =
      differences(load_run(file, {{"model.layer_dropout=none"}, {}}), load_run(file));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].before, "\"none\"");
  EXPECT_EQ(found[0].now, "\"output\"");
  EXPECT_TRUE(found[0].hot);
}

// The default depends on the number of devices, so a run may continue on another number.
TEST(Differences, ADefaultSizeOfMicrobatchesIsNoSetting) {
  testing::TempDir folder;
  const std::string file = folder.write("r.toml", kRun);
  const auto with = [&](std::vector<std::string> sets) {
    return load_run(file, {std::move(sets), {}});
  };
  const RunConfig by_default = with({}), whole = with({"train.microbatch_size=8"}),
                  parts = with({"train.microbatch_size=2"});
  EXPECT_EQ(resolved_run_file(by_default, "simple", {}).find("microbatch_size"), std::string::npos);
  EXPECT_NE(resolved_run_file(parts, "simple", {}).find("microbatch_size = 2"), std::string::npos);
  EXPECT_TRUE(differences(by_default, by_default).empty());
  EXPECT_TRUE(differences(whole, by_default).empty());
  const std::vector<Difference> chosen = differences(by_default, parts);
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen[0].before, "the default");
  EXPECT_EQ(chosen[0].now, "2");
  EXPECT_TRUE(chosen[0].hot);
  const std::vector<Difference> dropped = differences(parts, by_default);
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_FALSE(dropped[0].hot);
}

TEST(ReferencePage, CommittedPageIsCurrent) {
  std::ifstream file(LAMINA_SOURCE_DIR "/docs/config.md");
  std::string committed{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(committed, reference_page(documented_schema()))
      << "run: lamina config explain --markdown > docs/config.md";
}

TEST(Schema, EveryKeyHasADocSentence) {
  for (const Section& section : run_schema().sections)
    for (const Key& key : section.keys)
      EXPECT_TRUE(key.doc.size() > 10 && key.doc.back() == '.') << dotted_name(section, key);
}

}  // namespace
}  // namespace lamina::config
