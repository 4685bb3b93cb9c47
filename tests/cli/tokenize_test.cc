// lamina tokenize: output forms and refusals. lamina template: its variables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/trained_run.h"
#include "text/bpe_support.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;

// A model directory with a tokenizer of the bytes and "ab", "abc", "bc"; BOS before every text.
const std::string& directory() {
  static const TempDir folder;
  static const std::string path = [] {
    text::testing::SmallTokenizer small;
    small.post_processor =
        R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<end>"}},)"
        R"({"Sequence":{"id":"A"}}],"special_tokens":{"<end>":{"ids":[259]}}})";
    folder.write("tokenizer.json", small.json());
    return folder.path();
  }();
  return path;
}

Finished tokenize(std::vector<std::string> words) {
  words.insert(words.begin(), {"tokenize", "-m", directory()});
  return lamina_program(words);
}

TEST(Template, VariablesAreAsInTheFile) {
  const TempDir folder;
  const std::string shown = folder.write(
      "t.jinja", "{% for m in messages %}[{{ m.content }}|{{ m.reasoning_content }}]{% endfor %}");
  const auto render = [&](const std::string& messages) {
    const std::string context = folder.write("c.json", "{\"messages\": " + messages + "}");
    const Finished f = lamina_program({"template", shown, "--context", context});
    EXPECT_EQ(f.code, 0) << f.err;
    return f.out;
  };
  EXPECT_EQ(render(R"([{"role": "assistant", "content": null, "thinking": "t"}])"), "[None|]");
  EXPECT_EQ(render(R"([{"content": {"text": null}}, "other"])"), "[{'text': None}|][|]");
  EXPECT_EQ(render(R"({"a": null})"), "[|]");
}

TEST(Template, SuggestsTheVariableForAListOfMessages) {
  const TempDir folder;
  const std::string context = folder.write("m.json", "[{\"role\": \"user\"}]");
  const Finished f =
      lamina_program({"template", folder.write("t.jinja", "t"), "--context", context});
  EXPECT_EQ(f.code, 2);
  EXPECT_EQ(f.err, "error: " + context +
                       ":1: the document must be an object, got an array of 1\n"
                       "  a list of messages is one of its variables: {\"messages\": [...]}\n");
}

TEST(Tokenize, Example) {
  const Finished result = tokenize({"-p", "abc b"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "     259       0..0       <end>\n     257       0..3       abc\n"
            "      32       3..4       \xc4\xa0\n      98       4..5       b\n4 tokens\n");
}

TEST(Tokenize, OffsetsCountCodePoints) {
  EXPECT_EQ(tokenize({"-p",
                      "\xc3\xa9"
                      "b",
                      "--json", "--no-special"})
                .out,
            R"({"count":3,"ids":[195,169,98],"pieces":["Ã","©","b"],"offsets":[[0,1],[0,1],[1,2]]})"
            "\n");
}

TEST(Tokenize, LinesOfObjectsGoBothWays) {
  const TempDir folder;
  const std::string texts = folder.write(
      "texts.jsonl", "{\"text\":\"abc\"}\n\n{\"text\":\"<end>\",\"more\":1}\n{\"text\":\"\"}\n");
  EXPECT_EQ(tokenize({"--jsonl", texts}).out,
            "{\"ids\":[259,257]}\n{\"ids\":[259,259]}\n{\"ids\":[259]}\n");
  EXPECT_EQ(tokenize({"--jsonl", texts, "--no-special", "--no-parse-special"}).out,
            "{\"ids\":[257]}\n{\"ids\":[60,101,110,100,62]}\n{\"ids\":[]}\n");
  const std::string windows =
      folder.write("windows.jsonl", "{\"text\":\"abc\"}\r\n\r\n \t\n{\"text\":\"\"}\r\n");
  EXPECT_EQ(tokenize({"--jsonl", windows}).out, "{\"ids\":[259,257]}\n{\"ids\":[259]}\n");
  const std::string ids = folder.write("ids.jsonl", "{\"ids\":[259,257,195]}\n{\"ids\":[]}");
  EXPECT_EQ(tokenize({"--decode", "--jsonl", ids}).out,
            "{\"text\":\"<end>abc\xef\xbf\xbd\"}\n{\"text\":\"\"}\n");
  EXPECT_EQ(tokenize({"--decode", "--skip-special", "--jsonl", ids}).out,
            "{\"text\":\"abc\xef\xbf\xbd\"}\n{\"text\":\"\"}\n");
}

TEST(Tokenize, CountsTokensOfAFile) {
  const TempDir folder;
  EXPECT_EQ(tokenize({"--count", "-f", folder.write("text", "abcabc")}).out, "3\n");
  EXPECT_EQ(tokenize({"--count", "-p", "abcabc", "--json"}).out, "{\"count\":3}\n");
  EXPECT_EQ(tokenize({"--decode", "--ids", "257,98"}).out, "abcb");
}

TEST(Tokenize, ALineThatIsWrongIsNamed) {
  const TempDir folder;
  const auto error = [&](const std::string& line, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--jsonl", folder.write("in.jsonl", "{\"text\":\"\"}\n" + line)});
    const Finished result = tokenize(more);
    EXPECT_EQ(result.code, 5) << result.err;
    EXPECT_EQ(result.out, "{\"ids\":[259]}\n");
    return result.err;
  };
  EXPECT_THAT(error("{\"txt\":1}"), HasSubstr("in.jsonl:2: the document lacks the key 'text'"));
  EXPECT_THAT(error("{\"text\":1}"), HasSubstr("'text' must be a string, got 1"));
  EXPECT_THAT(error("nonsense"), HasSubstr("in.jsonl:2: not valid JSON"));
  const std::string ids = folder.write("ids.jsonl", "{\"ids\":[1,-1]}");
  EXPECT_THAT(tokenize({"--decode", "--jsonl", ids}).err, HasSubstr("'ids[1]' is -1"));
}

// On the command line it is a wrong word, in a file wrong data.
TEST(Tokenize, AnIdBeyondTheVocabularyIsRefusedAtItsPlace) {
  const Finished given = tokenize({"--decode", "--ids", "1,260"});
  EXPECT_EQ(given.code, 2);
  EXPECT_EQ(given.err, "error: --ids: id 260 is outside the vocabulary of 260; use 0 to 259\n");
  const TempDir folder;
  const std::string ids = folder.write("ids.jsonl", "{\"ids\":[1]}\n{\"ids\":[1,260]}");
  const Finished read = tokenize({"--decode", "--jsonl", ids});
  EXPECT_EQ(read.code, 5);
  EXPECT_THAT(read.err, HasSubstr("ids.jsonl:2: 'ids[1]' is 260, which is outside the "
                                  "vocabulary of 260; use 0 to 259\n"));
}

TEST(Tokenize, OptionsThatContradictAreRefused) {
  const std::vector<std::vector<std::string>> lines = {
      {"-p", "a", "--jsonl", "x"},
      {"--ids", "1"},
      {"--decode", "-p", "a"},
      {"--decode"},
      {"-p", "a", "--skip-special"},
      {"--jsonl", "x", "--count"},
      {"--decode", "--ids", "1,"},
      {"--decode", "--ids", "1", "--count"},
      {"--decode", "--ids", "1", "--no-special"},
      {"--decode", "--ids", "1", "--parse-special"}};
  for (const auto& line : lines)
    EXPECT_EQ(tokenize(line).code, 2) << ::testing::PrintToString(line);
}

// The byte tokenizer, too, for which a part of a character is a token.
TEST(Tokenize, PartsOfACharacterHaveItsOffsets) {
  const auto offsets = [](const std::string& text) {
    return lamina_program({"tokenize", "-m", trained_run(), "-p", text, "--json", "--no-special"})
        .out;
  };
  EXPECT_THAT(offsets("a\xc3\xa9"), HasSubstr("\"offsets\":[[0,1],[1,2],[1,2]]"));
  const TempDir folder;
  const std::string broken = folder.write("text", "\xc3\xff\xf0\x9f\x98z");
  EXPECT_THAT(lamina_program({"tokenize", "-m", trained_run(), "-f", broken, "--json"}).out,
              HasSubstr("\"offsets\":[[0,0],[0,1],[1,2],[2,3],[2,3],[2,3],[3,4]]"));
}

TEST(Tokenize, TakesTheTokenizerOfARun) {
  const Finished result = lamina_program({"tokenize", "-m", trained_run(), "-p", "hi"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("3 tokens"));
}

}  // namespace
}  // namespace lamina::cli
