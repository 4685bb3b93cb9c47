// Rows of pairs of answers in TRL's forms: their texts, and the two answers of a pair in the same
// batch.
#include "data/preference_record.h"

#include <gtest/gtest.h>

#include <set>

#include "data/load.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::data {
namespace {

using testing::TempDir;

class Preferences {
 public:
  explicit Preferences(const std::string& lines) {
    section_.form = "preference";
    section_.chat_template =
        dir_.write("chat.jinja",
                   "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{{ '\\n' }}{% endfor %}"
                   "{% if add_generation_prompt %}a:{% endif %}");
    section_.train = {dir_.write("pairs.jsonl", lines)};
    section_.sequence_length = 63;
    section_.shuffle = false;
  }

  config::DataSection& section() { return section_; }
  std::string file() const { return section_.train[0]; }
  RunData load() const { return load_data(section_, 1, *text::make_byte_tokenizer(), 258); }

  // For each segment of each row: the text, with the learned part in brackets. The tokenizer's end
  // of text is "$", its beginning "^".
  std::vector<std::vector<std::string>> rows() const {
    const RunData data = load();
    Batch batch;
    data.train.read_numbered(0, static_cast<std::int64_t>(data.train.num_rows()), batch);
    std::vector<std::vector<std::string>> out;
    const auto width = static_cast<std::size_t>(batch.tokens_per_row);
    for (std::size_t row = 0; row < data.train.num_rows(); ++row) {
      std::vector<std::string>& segments = out.emplace_back();
      for (std::size_t i = row * width; i < (row + 1) * width && batch.segment_ids[i] > 0; ++i) {
        if (batch.positions[i] == 0) segments.push_back(shown(batch.tokens[i]));
        if (batch.labels[i] != kIgnoredLabel)
          segments.back() += "[" + shown(batch.labels[i]) + "]";
        else if (i + 1 < (row + 1) * width && batch.segment_ids[i + 1] == batch.segment_ids[i])
          segments.back() += shown(batch.tokens[i + 1]);
      }
    }
    return out;
  }

 private:
  static std::string shown(std::int32_t token) {
    if (token >= 256) return token == 256 ? "^" : "$";
    return std::string(1, static_cast<char>(token));
  }

  TempDir dir_;
  config::DataSection section_;
};

using Rows = std::vector<std::vector<std::string>>;

TEST(PreferenceRecord, Example) {
  const Preferences texts(R"({"prompt": "2+2=", "chosen": "4", "rejected": "5!"})");
  EXPECT_EQ(texts.rows(), (Rows{{"^2+2=[4][$]", "^2+2=[5][!][$]"}}));
}

TEST(PreferenceRecord, TextsNeedNoTemplate) {
  Preferences texts(R"({"prompt": "2+2=", "chosen": "4", "rejected": "5!"})");
  const TempDir model;
  texts.section().chat_template.reset();
  texts.section().tokenizer = model.path();
  EXPECT_EQ(texts.rows(), (Rows{{"^2+2=[4][$]", "^2+2=[5][!][$]"}}));
}

TEST(PreferenceRecord, MessagesAreWrittenWithTheTemplate) {
  const Preferences messages(R"({"prompt": [{"role": "user", "content": "x"}],)"
                             R"( "chosen": [{"role": "assistant", "content": "y"}],)"
                             R"( "rejected": [{"role": "assistant", "content": "z"}]})");
  const Rows rows = messages.rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"u:x\na:[y][\n]", "u:x\na:[z][\n]"}));
}

TEST(PreferenceRecord, AnImplicitPromptIsTheCommonPrefix) {
  const Preferences texts(R"({"chosen": "is it? yes", "rejected": "is it? no"})");
  EXPECT_EQ(texts.rows(), (Rows{{"^is it?[ ][y][e][s][$]", "^is it?[ ][n][o][$]"}}));
  const Preferences messages(
      R"({"chosen": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],)"
      R"( "rejected": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "z"}]})");
  EXPECT_EQ(messages.rows(), (Rows{{"u:x\na:[y][\n]", "u:x\na:[z][\n]"}}));
}

TEST(PreferenceRecord, APromptThatIsNullOrTheQuestionAgainIsIgnored) {
  const std::string answers =
      R"("chosen": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],)"
      R"( "rejected": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "z"}]})";
  for (const char* prompt : {"null", R"("x")"})
    EXPECT_EQ(Preferences(std::string("{\"prompt\": ") + prompt + ", " + answers).rows(),
              (Rows{{"u:x\na:[y][\n]", "u:x\na:[z][\n]"}}))
        << prompt;
  EXPECT_EQ(
      Preferences(R"({"prompt": null, "chosen": "is it? yes", "rejected": "is it? no"})").rows(),
      (Rows{{"^is it?[ ][y][e][s][$]", "^is it?[ ][n][o][$]"}}));
  EXPECT_ERROR_SAYS(Preferences(R"({"prompt": "x", "chosen": [{"role": "assistant", )"
                                R"("content": "y"}], "rejected": [{"role": "assistant", )"
                                R"("content": "z"}]})")
                        .load(),
                    ExitCode::data, "prompt");
}

TEST(PreferenceRecord, ACharacterOfSeveralBytesIsNotCut) {
  // U+00E4 and U+00E5 begin with the same byte.
  const Preferences texts("{\"chosen\": \"a\u00e4\", \"rejected\": \"a\u00e5\"}");
  const Rows rows = texts.rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0][0].substr(0, 3), "^a[");
}

// Pairs of all lengths.
std::string many_pairs(int count) {
  std::string out;
  for (int i = 0; i < count; ++i)
    out += "{\"prompt\": \"" + std::string(static_cast<std::size_t>(i % 5), 'p') +
           "\", \"chosen\": \"" + std::to_string(i) +
           std::string(static_cast<std::size_t>(i % 7), 'c') + "\", \"rejected\": \"" +
           std::to_string(i) + "r\"}\n";
  return out;
}

TEST(PreferenceRows, PairsAreNeverApart) {
  for (const bool pack : {true, false}) {
    Preferences many(many_pairs(50));
    many.section().pack = pack;
    std::size_t pairs = 0;
    for (const std::vector<std::string>& row : many.rows()) {
      ASSERT_EQ(row.size() % 2, 0u);
      EXPECT_LE(row.size(), pack ? max_segments(63) : 2);
      for (std::size_t i = 0; i < row.size(); i += 2) {
        const auto number = [](const std::string& text) {
          std::string digits;
          for (char c : text)
            if (c >= '0' && c <= '9') digits += c;
          return digits;
        };
        EXPECT_EQ(number(row[i]), number(row[i + 1]));
        EXPECT_EQ(row[i].find('r'), row[i].npos);
        EXPECT_NE(row[i + 1].find('r'), row[i + 1].npos);
        ++pairs;
      }
    }
    EXPECT_EQ(pairs, 50u);
  }
}

TEST(PreferenceRows, AreNumberedWhereverTheyCome) {
  Preferences many(many_pairs(40));
  many.section().shuffle = true;
  const RunData data = many.load();
  DataCursor cursor;
  Batch shuffled, numbered;
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < data.train.num_rows(); ++i) {
    data.train.next(cursor, 1, shuffled);
    seen.insert(shuffled.rows.at(0));
    data.train.read_numbered(shuffled.rows[0], 1, numbered);
    EXPECT_EQ(numbered.tokens, shuffled.tokens);
  }
  EXPECT_EQ(seen.size(), data.train.num_rows());
}

TEST(PreferenceRows, HoldOutWholePairs) {
  Preferences many(many_pairs(40));
  many.section().validation_fraction = 0.25;
  many.section().pack = false;
  const RunData data = many.load();
  EXPECT_EQ(data.train.num_rows(), 30u);
  EXPECT_EQ(data.validation.at(0).num_rows(), 10u);
}

TEST(PreferenceRows, TheLongerAnswerOfAPairThatIsLongerThanARowIsCut) {
  const Preferences longer("{\"prompt\": \"p\", \"chosen\": \"" + std::string(80, 'c') +
                           "\", \"rejected\": \"rr\"}");
  const RunData data = longer.load();
  EXPECT_EQ(data.counts.num_cut_documents, 1u);
  const Rows rows = longer.rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at(1), "^p[r][r][$]");
}

TEST(PreferenceRows, APairThatDoesNotFitSaysWhichLengthIsEnough) {
  // The first pair has 23 and 25 tokens, with the beginning and the end of text; the answers differ
  // only at their ends.
  const std::string same(20, 'c');
  const std::string line = R"({"prompt": "p", "chosen": ")" + same + R"(", "rejected": ")" + same +
                           R"(no"})" + "\n" + R"({"prompt": "p", "chosen": ")" + same + same +
                           R"(", "rejected": ")" + same + same + R"(no"})";
  Preferences pairs(line);
  pairs.section().sequence_length = 20;
  EXPECT_USER_ERROR(pairs.load(), ExitCode::data,
                    pairs.file() +
                        ": no pair fits: both answers of a pair are in one row, which has 21 "
                        "tokens, and the shortest pair has 48\n"
                        "  set data.sequence_length to at least 47");
  pairs.section().sequence_length = 47;
  EXPECT_EQ(pairs.load().train.num_rows(), 1u);
}

TEST(PreferenceRecord, NamesMissingMembers) {
  EXPECT_ERROR_SAYS(Preferences(R"({"prompt": "x", "chosen": "y"})").load(), ExitCode::data,
                    ":1: the object has no 'rejected'; it has prompt, chosen\n"
                    "  a record has \"chosen\" and \"rejected\", and may have \"prompt\"");
  EXPECT_ERROR_SAYS(Preferences(R"({"prompt": 1, "chosen": "y", "rejected": "z"})").load(),
                    ExitCode::data, "prompt");
}

TEST(PreferenceRecord, ValuesThatAreNoAnswersAreRefusedEvenIfTheyAreTheSame) {
  const auto load = [](const std::string& value) {
    Preferences(R"({"prompt": "x", "chosen": )" + value + R"(, "rejected": )" + value + "}").load();
  };
  for (const char* value : {"null", "5", "{}"})
    EXPECT_ERROR_SAYS(load(value), ExitCode::data,
                      "'chosen' must be a text or a list of messages, got ");
  EXPECT_ERROR_SAYS(load("[5, 6]"), ExitCode::data, "pairs.jsonl:1: ");
  EXPECT_ERROR_SAYS(load(R"([{"role": "user", "content": "x"}, {"role": "assistant"}])"),
                    ExitCode::data, "has the role assistant and no content");
  EXPECT_ERROR_SAYS(Preferences(R"({"prompt": 5, "chosen": "y", "rejected": "y"})").load(),
                    ExitCode::data, "'prompt' must be ");
}

// As in TRL: the prompt ends before the last message of the shorter list.
TEST(PreferenceRecord, AnAnswerMayBeginTheOther) {
  const std::string turns =
      R"({"role": "user", "content": "x"}, {"role": "assistant", "content": "y"})";
  EXPECT_EQ(
      Preferences("{\"chosen\": [" + turns + "], \"rejected\": [" + turns + ", " + turns + "]}")
          .rows(),
      (Rows{{"u:x\na:[y][\n]", "u:x\na:[y][\n][u][:][x][\n][a][:][y][\n]"}}));
}

TEST(PreferenceRecord, AnswersThatAreTheSameHaveNothingToCompare) {
  const std::string same[] = {
      R"({"prompt": "x", "chosen": "y", "rejected": "y"})", R"({"chosen": "xy", "rejected": "xy"})",
      R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "y"}], "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "y"}]})",
      // Other members, or another order of members, that the template does not show.
      R"({"prompt": [{"role": "user", "content": "q"}], "chosen": [{"role": "assistant", "content": "y"}], "rejected": [{"content": "y", "role": "assistant", "id": 7}]})",
      R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "y"}], "rejected": [{"content": "q", "role": "user"}, {"content": "y", "role": "assistant"}]})"};
  for (const std::string& line : same) {
    EXPECT_ERROR_SAYS(Preferences(line).load(), ExitCode::data,
                      "no token is in the loss: both answers of the pair are the same");
    const RunData data =
        Preferences(line + "\n" + R"({"prompt": "x", "chosen": "y", "rejected": "z"})").load();
    EXPECT_EQ(data.train.num_rows(), 1u);
    EXPECT_EQ(data.train_sources.at(0).counts.num_unlearned_records, 1u);
    EXPECT_EQ(data.train_sources.at(0).counts.num_documents, 2u);
  }
}

TEST(PreferenceRows, PairsThatAreTheSameOnceTheyAreCutAreLeftOut) {
  const std::string begin(60, 'c');
  const std::string pair =
      R"({"prompt": "p", "chosen": ")" + begin + R"(yes", "rejected": ")" + begin + R"(no"})";
  Preferences pairs(pair + "\n" + R"({"prompt": "x", "chosen": "y", "rejected": "z"})");
  for (std::int64_t length : {63, 64}) {  // in a row of 65 tokens one answer is a token too long
    pairs.section().sequence_length = length;
    const RunData data = pairs.load();
    EXPECT_EQ(data.counts.num_unlearned_documents, 2u);
    EXPECT_EQ(data.train.num_rows(), 1u);
  }
  pairs.section().sequence_length = 160;
  EXPECT_EQ(pairs.load().counts.num_unlearned_documents, 0u);
}

}  // namespace
}  // namespace lamina::data
