// Token stores: equal to rows built in memory, built once, reused, continued after an interrupt,
// and refused if damaged.
#include "data/stores.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "data/load.h"
#include "data/packed_text.h"
#include "data/token_files.h"
#include "data/token_part.h"
#include "data/token_store.h"
#include "io/manifest.h"
#include "support/expect_error.h"
#include "support/few_descriptors.h"
#include "support/on_threads.h"
#include "support/temp_dir.h"

namespace lamina::data {
namespace {

namespace fs = std::filesystem;
using testing::on_four_threads;
using testing::TempDir;

std::string lines(int num) {
  std::string out;
  for (std::int64_t i = 0; i < num; ++i) out += "line " + std::to_string(i * i) + "\n";
  return out;
}

class StoreTest : public ::testing::Test {
 protected:
  Reading reading() const {
    return {.separator = Separator::line,
            .tokenizer = *tokenizer_,
            .vocab_size = 258,
            .between = [this] {
              ++num_documents_;
              if (num_documents_ == stop_after_) throw Stop{};
            }};
  }
  StoreOptions options() const {
    return {.folder = dir_ / "tokens", .part_bytes = 200, .save_every_bytes = 500};
  }
  StoredTokens store(const std::vector<std::string>& patterns) {
    num_documents_ = 0;
    return open_or_make_store(patterns, reading(), options());
  }
  std::vector<std::string> in_folder() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(dir_ / "tokens"))
      if (entry.is_directory()) out.push_back(entry.path().filename().string());
    return out;
  }

  struct Stop {};
  TempDir dir_;
  std::unique_ptr<text::Tokenizer> tokenizer_ = text::make_byte_tokenizer();
  mutable std::atomic<int> num_documents_ = 0;
  int stop_after_ = -1;
};

std::vector<std::int32_t> all_tokens(const TokenView& view) {
  std::vector<std::int32_t> out(view.tokens.size());
  view.tokens.copy(0, out);
  return out;
}

void expect_same(const TokenView& stored, const TokenStore& in_memory) {
  EXPECT_EQ(all_tokens(stored), in_memory.tokens);
  EXPECT_TRUE(std::ranges::equal(stored.document_begin, in_memory.document_begin));
  EXPECT_TRUE(std::ranges::equal(stored.in_loss, in_memory.in_loss));
}

TEST_F(StoreTest, Example) {
  const std::string a = dir_.write("a.txt", lines(100));
  const std::string b = dir_.write("b.txt.gz", testing::gzipped(lines(70)));
  const StoredTokens made = store({a, b});
  EXPECT_TRUE(made.was_made);
  const TokenStore in_memory = tokenize_files({a, b}, reading());
  expect_same(made.view, in_memory);
  EXPECT_EQ(made.view.digest, view_of(std::make_shared<const TokenStore>(in_memory)).digest);
  ASSERT_EQ(made.sources.size(), 2u);
  EXPECT_EQ(made.sources[1].name, b);
  EXPECT_EQ(made.sources[1].counts.num_documents, 70u);
  EXPECT_EQ(made.sources[1].num_tokens, in_memory.sources[1].num_tokens);

  const StoredTokens found = store({a, b});
  EXPECT_FALSE(found.was_made);
  EXPECT_EQ(num_documents_, 2) << "files are looked at, documents are not";
  expect_same(found.view, in_memory);
  EXPECT_EQ(found.sources[0].counts.num_documents, 100u);
  EXPECT_EQ(found.path, made.path);
}

TEST_F(StoreTest, IsFoundByContentsAndNotByNames) {
  const StoredTokens made = store({dir_.write("a.txt", lines(100))});
  const std::string moved = dir_.write("moved/b.txt", lines(100));
  EXPECT_FALSE(store({moved}).was_made);
  EXPECT_EQ(store({moved}).sources[0].name, moved);
  EXPECT_TRUE(store({dir_.write("a.txt", lines(101))}).was_made);
  Reading by_file = reading();
  by_file.separator = Separator::file;
  EXPECT_TRUE(open_or_make_store({moved}, by_file, options()).was_made);
}

TEST_F(StoreTest, AModelWithFewerIdsIsRefusedAsWithTokensInMemory) {
  const std::string path = dir_.write("a.txt", lines(100));  // each line ends with the id 257
  const StoredTokens made = store({path});
  Reading narrow = reading();
  narrow.vocab_size = 257;
  const std::string says =
      ": the tokenizer produces the id 257 (\"\"), but the model has ids 0 to 256\n"
      "  use the model's own tokenizer, or set model.vocab_size to at least 258";
  EXPECT_USER_ERROR(tokenize_files({path}, narrow), ExitCode::data, path + says);
  EXPECT_USER_ERROR(open_or_make_store({path}, narrow, options()), ExitCode::data,
                    made.path + says);
  EXPECT_FALSE(store({path}).was_made);  // the store remains
}

TEST_F(StoreTest, DoesNotDependOnThreads) {
  const std::string path = dir_.write("a.txt", lines(3000));
  StoreOptions threaded = options();
  threaded.workers = on_four_threads;
  const StoredTokens made = open_or_make_store({path}, reading(), threaded);
  expect_same(made.view, tokenize_files({path}, reading()));
}

TEST_F(StoreTest, ContinuesAfterAStop) {
  const std::string path = dir_.write("a.txt", lines(1000));
  const TokenStore whole = tokenize_files({path}, reading());
  for (const Workers& workers : {Workers(), Workers(on_four_threads)}) {
    fs::remove_all(dir_ / "tokens");
    StoreOptions o = options();
    o.workers = workers;
    num_documents_ = 0;
    stop_after_ = 700;
    EXPECT_THROW(open_or_make_store({path}, reading(), o), Stop);
    ASSERT_EQ(in_folder().size(), 1u);
    EXPECT_TRUE(in_folder()[0].ends_with(".building"));
    stop_after_ = -1;
    num_documents_ = 0;
    const StoredTokens made = open_or_make_store({path}, reading(), o);
    expect_same(made.view, whole);
    EXPECT_LT(num_documents_, 800) << "what was done is not done again";
    EXPECT_EQ(made.sources[0].counts.num_documents, 1000u);
    EXPECT_EQ(in_folder().size(), 1u);
  }
}

TEST_F(StoreTest, LeftoversOfAKilledWriterAreCutOff) {
  const std::string path = dir_.write("a.txt", lines(1000));
  stop_after_ = 700;
  EXPECT_THROW(store({path}), Stop);
  const std::string building = dir_ / "tokens/" + in_folder()[0];
  for (const char* name : {"/tokens", "/documents"}) {
    std::ofstream file(building + name, std::ios::app);
    file << "half a pa";
  }
  stop_after_ = -1;
  expect_same(store({path}).view, tokenize_files({path}, reading()));
}

// A crash may leave other bytes than were written.
TEST_F(StoreTest, AnIncompleteOneThatIsDamagedIsStartedAgain) {
  const std::string path = dir_.write("a.txt", lines(1000));
  const TokenStore whole = tokenize_files({path}, reading());
  for (const char* name : {"/tokens", "/documents", "/progress.json"}) {
    stop_after_ = 700;
    EXPECT_THROW(store({path}), Stop);
    ASSERT_EQ(in_folder().size(), 1u);
    std::fstream file(dir_ / "tokens/" + in_folder()[0] + name,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(40);
    file.put('\x7f');
    file.close();
    stop_after_ = -1;
    const StoredTokens made = store({path});
    EXPECT_GE(num_documents_, 1000) << name;
    expect_same(made.view, whole);
    EXPECT_EQ(made.sources[0].counts.num_documents, 1000u);
    fs::remove_all(made.path);
  }
}

TEST_F(StoreTest, AnIncompleteOneWithoutChecksumsIsStartedAgain) {
  const std::string path = dir_.write("a.txt", lines(1000));
  stop_after_ = 700;
  EXPECT_THROW(store({path}), Stop);
  dir_.write("tokens/" + in_folder().at(0) + "/progress.json",
             R"({"parts": 1, "tokens": 2, "documents": 1, "sources": []})");
  stop_after_ = -1;
  expect_same(store({path}).view, tokenize_files({path}, reading()));
}

TEST(TokenFiles, OffsetsThatDoNotFitTheTokensAreDamage) {
  const std::vector<std::vector<std::uint64_t>> wrong = {{2}, {2, 4}, {2, 1, 3}};
  for (const std::vector<std::uint64_t>& ends : wrong) {
    TempDir dir;
    std::vector<TokenSource> sources(1);
    TokenPart part;
    part.tokens = {5, 6, 7};
    part.document_end = ends;
    TokenFilesWriter writer(dir.path(), {}, sources);
    writer.add(part);
    writer.finish(sources);
    EXPECT_THROW(open_token_files(dir.path()), io::Damaged) << ends.size();
  }
  TempDir dir;
  std::vector<TokenSource> sources(1);
  TokenPart part;
  part.tokens = {5, 6, 7};
  part.document_end = {1, 3};
  part.in_loss = {0, 1};
  TokenFilesWriter writer(dir.path(), {.has_loss = true}, sources);
  writer.add(part);
  writer.finish(sources);
  EXPECT_THROW(open_token_files(dir.path()), io::Damaged);
}

TEST(TokenFiles, TheirTokensStayIfAFileCannotBeOpened) {
  TempDir dir;
  std::vector<TokenSource> sources(1);
  TokenPart part;
  part.tokens = {5, 6, 7};
  part.document_end = {3};
  {
    TokenFilesWriter writer(dir.path(), {}, sources);
    writer.add(part);
    writer.save(sources);
  }
  {
    const testing::FewDescriptors two(2);  // for tokens and documents
    EXPECT_ERROR_SAYS(TokenFilesWriter(dir.path(), {}, sources), ExitCode::checkpoint,
                      "progress.json: cannot be read");
  }
  EXPECT_EQ(TokenFilesWriter(dir.path(), {}, sources).num_tokens(), 3u);
}

TEST_F(StoreTest, ADamagedOneIsMadeAgain) {
  const std::string path = dir_.write("a.txt", lines(100));
  const StoredTokens made = store({path});
  for (const char* name : {"/tokens", "/documents", "/manifest.json"}) {
    std::fstream file(made.path + name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(40);
    file.put('\x7f');
    file.close();
    const StoredTokens again = store({path});
    EXPECT_TRUE(again.was_made) << name;
    expect_same(again.view, tokenize_files({path}, reading()));
  }
}

TEST_F(StoreTest, OneWithoutAManifestIsMadeAgain) {
  const std::string path = dir_.write("a.txt", lines(100));
  const StoredTokens made = store({path});
  fs::remove(made.path + "/manifest.json");
  const StoredTokens again = store({path});
  EXPECT_TRUE(again.was_made);
  EXPECT_EQ(again.path, made.path);
  expect_same(again.view, tokenize_files({path}, reading()));
  EXPECT_EQ(in_folder().size(), 1u);
}

TEST_F(StoreTest, AnErrorInTheFilesLeavesNothingBehind) {
  const std::string path = dir_.write("a.txt", lines(100) + "\xff\n" + lines(100));
  EXPECT_ERROR_SAYS(store({path}), ExitCode::data, "a.txt:101: is not UTF-8");
  EXPECT_TRUE(in_folder().empty());
}

// Otherwise the old contents of b.txt would have a store with the tokens of the new ones.
TEST_F(StoreTest, AFileThatChangesWhileItIsReadLeavesNothingBehind) {
  const std::string a = dir_.write("a.txt", lines(100)), b = dir_.write("b.txt", lines(70));
  const std::string other = dir_.write("other.txt", lines(71));
  Reading changing = reading();
  int num_calls = 0;
  changing.between = [&] {
    if (++num_calls == 50) fs::rename(other, b);
  };
  EXPECT_ERROR_SAYS(open_or_make_store({a, b}, changing, options()), ExitCode::data,
                    "a.txt: this file, or another that is read with it, changed while it was "
                    "tokenized, so its tokens are not kept");
  EXPECT_TRUE(in_folder().empty());
  expect_same(store({a, b}).view, tokenize_files({a, b}, reading()));
  dir_.write("b.txt", lines(70));
  const StoredTokens old = store({a, b});
  EXPECT_TRUE(old.was_made);
  expect_same(old.view, tokenize_files({a, b}, reading()));
}

TEST_F(StoreTest, AFileThatChangesBeforeARestLeavesNothingBehind) {
  const std::string path = dir_.write("a.txt", lines(1000)),
                    other = dir_.write("b.txt", lines(999));
  stop_after_ = 700;
  EXPECT_THROW(store({path}), Stop);
  ASSERT_EQ(in_folder().size(), 1u);
  stop_after_ = -1;
  Reading changing = reading();
  int num_calls = 0;
  changing.between = [&] {
    if (++num_calls == 50) fs::rename(other, path);
  };
  EXPECT_ERROR_SAYS(open_or_make_store({path}, changing, options()), ExitCode::data,
                    "changed while it was tokenized");
  EXPECT_TRUE(in_folder().empty());
}

TEST_F(StoreTest, TheFirstOfManyErrorsIsReported) {
  std::string text = lines(2000);
  for (std::size_t at : {text.size() / 2, text.size() / 4, text.size() - 2}) text[at] = '\xff';
  const std::string path = dir_.write("a.txt", text);
  const auto bad = static_cast<std::ptrdiff_t>(text.size() / 4);
  const auto line = 1 + std::count(text.begin(), text.begin() + bad, '\n');
  StoreOptions threaded = options();
  threaded.workers = on_four_threads;
  EXPECT_ERROR_SAYS(open_or_make_store({path}, reading(), threaded), ExitCode::data,
                    "a.txt:" + std::to_string(line) + ": is not UTF-8");
}

TEST_F(StoreTest, SmallSourcesAreHeldInMemoryUnlessAStoreExists) {
  const std::string path = dir_.write("a.txt", lines(10));
  StoreOptions o = options();
  o.min_bytes = 1000;
  const StoredTokens held = open_or_make_store({path}, reading(), o);
  EXPECT_EQ(held.path, "");
  EXPECT_FALSE(fs::exists(dir_ / "tokens"));
  expect_same(held.view, tokenize_files({path}, reading()));
  store({path});
  EXPECT_NE(open_or_make_store({path}, reading(), o).path, "");
}

TEST_F(StoreTest, AFolderThatCannotBeMadeIsDoneWithout) {
  const std::string path = dir_.write("a.txt", lines(10));
  StoreOptions o = options();
  o.folder = dir_.write("a_file", "") + "/tokens";
  expect_same(open_or_make_store({path}, reading(), o).view, tokenize_files({path}, reading()));
}

TEST_F(StoreTest, TwoThatWantTheSameMakeItOnce) {
  const std::string path = dir_.write("a.txt", lines(3000));
  const TokenStore whole = tokenize_files({path}, reading());
  std::atomic<int> made = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        const StoredTokens found = open_or_make_store({path}, reading(), options());
        made += found.was_made;
        EXPECT_EQ(all_tokens(found.view), whole.tokens);
      });
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(in_folder().size(), 1u);
}

TEST(LoadData, RowsAndFingerprintEqualTokensInMemory) {
  TempDir dir;
  config::DataSection section;
  section.train = {dir.write("a.txt", lines(200000))};
  section.validation_fraction = 0.1;
  section.sequence_length = 64;
  section.document_separator = "line";
  const auto tokenizer = load_tokenizer(section);
  section.store = "none";
  const RunData held = load_data(section, 3, *tokenizer, 258);
  section.store = dir / "tokens";
  for (int i = 0; i < 2; ++i) {
    const RunData stored = load_data(section, 3, *tokenizer, 258, {.workers = on_four_threads});
    ASSERT_EQ(stored.stores.size(), 1u);
    EXPECT_EQ(stored.fingerprint, held.fingerprint);
    EXPECT_EQ(stored.counts.num_tokens, held.counts.num_tokens);
    Batch a, b;
    held.train.read({.epoch = 2, .index = 5}, 0, 100, a);
    stored.train.read({.epoch = 2, .index = 5}, 0, 100, b);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.labels, b.labels);
  }
}

TEST(LoadData, ConversationsAreStoredWithLearnedParts) {
  TempDir dir;
  config::DataSection section;
  section.form = "chat";
  section.bad_records = "skip";
  section.train = {dir.write("a.jsonl",
                             "{\"prompt\": \"ab\", \"completion\": \"c\"}\noops\n"
                             "{\"messages\": [{\"role\": \"model\", \"content\": \"x\"}]}\n"
                             "{\"prompt\": \"d\", \"completion\": \"ef\"}\n")};
  section.chat_template = dir.write("chat.jinja", "x");
  section.sequence_length = 8;
  const auto tokenizer = load_tokenizer(section);
  const RunData held = load_data(section, 3, *tokenizer, 258);
  section.store = dir / "tokens";
  const std::vector<StoredTokens> built = build_stores(section, *tokenizer, 258, {});
  ASSERT_EQ(built.size(), 1u);
  const RunData stored = load_data(section, 3, *tokenizer, 258);
  EXPECT_EQ(stored.stores, std::vector{built[0].path});
  EXPECT_EQ(stored.fingerprint, held.fingerprint);
  EXPECT_EQ(stored.train.num_labels(), 5u);
  EXPECT_EQ(stored.train_sources[0].num_bad_records, 1u);
  EXPECT_EQ(stored.train_sources[0].bad_records[0].where, section.train[0] + ":2");
  EXPECT_EQ(stored.train_sources[0].skipped_roles, std::vector<std::string>{"model"});
  // Another template gives another store, even if no record uses the template.
  section.chat_template = dir.write("t.jinja", "y");
  EXPECT_NE(build_stores(section, *tokenizer, 258, {})[0].path, built[0].path);
  // Templates in the tokenizer's directory have no effect beside it: a checkpoint has it there,
  // too.
  section.tokenizer = dir / "model";
  dir.write("model/tokenizer_config.json", R"({"bos_token": "<s>"})");
  const auto path = [&] { return build_stores(section, *tokenizer, 258, {})[0].path; };
  const std::string of_start = path();
  dir.write("model/chat_template.jinja", "x");
  dir.write("model/additional_chat_templates/tool_use.jinja", "y");
  dir.write("model/chat_template.json", R"({"chat_template": "z"})");
  EXPECT_EQ(path(), of_start);
  dir.write("model/tokenizer_config.json", R"({"bos_token": "<b>"})");
  EXPECT_NE(path(), of_start);
  section.chat_template.reset();
  const std::string of_directory = path();
  dir.write("model/chat_template.jinja", "other");
  EXPECT_NE(path(), of_directory);
  section.store = "none";
  EXPECT_ERROR_SAYS(build_stores(section, *tokenizer, 258, {}), ExitCode::usage,
                    "data.store: is \"none\"; building token stores requires a folder");
}

}  // namespace
}  // namespace lamina::data
