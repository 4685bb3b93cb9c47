// JSON: accepted texts, refused texts, and the messages of the refusals.
#include "core/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/json_writer.h"
#include "support/expect_error.h"

namespace lamina {
namespace {

JsonDocument parse(std::string text) { return JsonDocument::parse(std::move(text), "c.json"); }

TEST(Json, Example) {
  const JsonDocument document =
      parse(R"({"layers": 2, "rope": {"theta": 1e4}, "names": ["a", "b"]})");
  const JsonValue root = document.root();
  EXPECT_EQ(root.at("layers").as_int64(), 2);
  EXPECT_EQ(root.at("rope").at("theta").as_double(), 10000.0);
  EXPECT_FALSE(root.find("absent"));
  std::string names;
  for (JsonValue name : root.at("names").elements()) names += name.as_string();
  EXPECT_EQ(names, "ab");
}

TEST(Json, NamesLineAndPathOfAWrongType) {
  const JsonDocument document = parse("{\n \"a\": [\n  {\"b\": 2.0}\n ]\n}");
  const JsonValue b = (*document.root().at("a").elements().begin()).at("b");
  EXPECT_USER_ERROR(b.as_int64(), ExitCode::usage,
                    "c.json:3: 'a[0].b' must be an integer, got 2.0");
}

TEST(Json, SuggestsAnExistingKey) {
  const JsonDocument document = parse(R"({"hidden_sise": 2})");
  EXPECT_USER_ERROR(document.root().at("hidden_size"), ExitCode::usage,
                    "c.json:1: the document lacks the key 'hidden_size'\n"
                    "  did you mean 'hidden_sise', which is present?");
}

TEST(Json, RefusesDuplicateKeysAlsoEscapedAndInLargeObjects) {
  EXPECT_USER_ERROR(parse("{\"a\":1,\n\"\\u0061\":2}"), ExitCode::usage,
                    "c.json:1: the key \"a\" appears twice in one object; keys must be unique");
  std::string large = "{";
  for (int i = 0; i < 100; ++i) large += fmt::format("\"k{}\":0,", i);
  EXPECT_ERROR_SAYS(parse(large + "\"k77\":0}"), ExitCode::usage, "\"k77\" appears twice");
  EXPECT_EQ(parse(large + "\"k100\":0}").root().size(), 101u);
}

TEST(Json, RefusesDepthSizeAndNumbersBeyondTheLimits) {
  EXPECT_ERROR_SAYS(parse(std::string(33, '[') + std::string(33, ']')), ExitCode::usage,
                    "nested deeper than 32");
  EXPECT_ERROR_SAYS(parse(std::string(100000, '[')), ExitCode::usage, "nested deeper than 32");
  EXPECT_ERROR_SAYS(JsonDocument::parse("[1,2,3]", "c.json", {.max_bytes = 6}), ExitCode::usage,
                    "has 7 bytes of JSON; the maximum is 6");
  EXPECT_ERROR_SAYS(parse("[1e400]"), ExitCode::usage, "1e400 is too large");
}

TEST(Json, ReadsPythonsInfiniteNumbersWhereTheyAreAllowed) {
  const JsonDocument document = JsonDocument::parse(
      R"({"a": [Infinity, -Infinity, 0.5], "b": NaN, "Infinity": "-Infinity \" NaN"})", "c.json",
      {.infinite_numbers = true});
  const JsonValue a = document.root().at("a");
  EXPECT_EQ(a.element(0).as_double(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(a.element(1).as_double(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(a.element(2).as_double(), 0.5);
  EXPECT_TRUE(std::isnan(document.root().at("b").as_double()));
  EXPECT_EQ(document.root().at("Infinity").as_string(), "-Infinity \" NaN");
  EXPECT_EQ(a.element(1).describe(), "-Infinity");
}

TEST(Json, RefusesInfiniteNumbersElsewhere) {
  EXPECT_ERROR_SAYS(parse("[Infinity]"), ExitCode::usage, "not valid JSON");
  for (const char* text : {"[Infinityx]", "[+Infinity]", "[Inf]", "[nan]", "[-NaN]", "Infinity5"})
    EXPECT_ERROR_SAYS(JsonDocument::parse(text, "c.json", {.infinite_numbers = true}),
                      ExitCode::usage, "c.json:1");
}

TEST(JsonWriter, CopiesInfiniteNumbersAsPythonWritesThem) {
  const JsonDocument document =
      JsonDocument::parse("[Infinity,-Infinity,NaN]", "c.json", {.infinite_numbers = true});
  JsonWriter json;
  json.value(document.root());
  EXPECT_EQ(json.text(), "[Infinity,-Infinity,NaN]");
}

TEST(Json, SaysWhereTheTextBreaksOff) {
  EXPECT_ERROR_SAYS(parse("{\"a\":\n [1,"), ExitCode::usage, "c.json:2: JSON is truncated after");
  EXPECT_ERROR_SAYS(parse("\xef\xbb\xbf{}"), ExitCode::usage, "byte order mark");
  EXPECT_ERROR_SAYS(parse(""), ExitCode::usage, "it is empty");
  EXPECT_ERROR_SAYS(parse("<html>"), ExitCode::usage, "HTML");
}

// Python's json module writes these for an emoji that was cut.
TEST(Json, HalfACharacterIsNamed) {
  for (const char* text : {R"({"a":"x\ud83d"})", R"({"a":"x\ud83d y"})", R"({"a":"x\ud83d\n"})",
                           R"({"a":"x\ud83d\u0041"})", R"({"a":"x\ud83d\ud83d"})"})
    EXPECT_USER_ERROR(parse(text), ExitCode::usage,
                      "c.json:1: not valid JSON: \\ud83d is half of a character without the other "
                      "half\n  at byte 7 of the file\n  replace it, eg by \\ufffd");
  for (const char* text : {R"({"a":"\uDE00"})", R"({"a":"\uDE00 y"})"})
    EXPECT_ERROR_SAYS(parse(text), ExitCode::usage, "not valid JSON: \\uDE00 is half");
  EXPECT_EQ(parse(R"({"a":"\ud83d\ude00"})").root().at("a").as_string(), "\xf0\x9f\x98\x80");
  for (const char* text : {R"(["\\ud83d" x])", R"(["\\ud83d\q"])", R"(["\ud83d\ude00\q"])"})
    EXPECT_ERROR_SAYS(parse(text), ExitCode::usage, "not valid JSON: syntax error");
}

TEST(Json, CountsBytesWithinTheFileOrThePartOfIt) {
  EXPECT_USER_ERROR(parse("{\n} x"), ExitCode::usage,
                    "c.json:2: not valid JSON: extra data\n  at byte 4 of the file");
  EXPECT_USER_ERROR(JsonDocument::parse("{} x", "c.jsonl:7", {.part = "line"}), ExitCode::usage,
                    "c.jsonl:7: not valid JSON: extra data\n  at byte 3 of the line");
  const JsonDocument line = JsonDocument::parse("{\"a\": 1}", "c.jsonl:7", {.part = "line"});
  EXPECT_USER_ERROR(line.root().at("a").as_string(), ExitCode::usage,
                    "c.jsonl:7: 'a' must be a string, got 1");
}

TEST(Json, ReadsDecimalsToTheNearestDouble) {
  for (double value : {0.30000000000000004, 2.2250738585072014e-308, 5e-324, 1.7976931348623157e308,
                       -123456.789e-20, 1.8446744073709552e19})
    EXPECT_EQ(
        parse(fmt::format("[{:.17g}]", value)).root().elements().begin().operator*().as_double(),
        value);
}

TEST(Json, KeepsTheTextOfNumbers) {
  const std::vector<std::string> numbers = {"0",     "-9",     "18446744073709551616", "-0.50",
                                            "1E+05", "2.5e-7", "-3.1743694102137470"};
  const JsonDocument document =
      parse(fmt::format("[\"a\",{} , {}]", fmt::join(numbers, ","), numbers[3]));
  std::size_t i = 0;
  for (const JsonValue value : document.root().elements())
    if (value.is_number()) {
      EXPECT_EQ(value.number_text(), i < numbers.size() ? numbers[i] : numbers[3]);
      ++i;
    }
  EXPECT_EQ(i, numbers.size() + 1);
  EXPECT_EQ(parse("12").root().number_text(), "12");
}

TEST(Json, KeepsTheDigitsOfIntegersBeyond64Bits) {
  const JsonDocument document = parse(
      "[18446744073709551616 ,-123456789012345678901234567890,-0,1e30,18446744073709551616.0,"
      "5,18446744073709551615,\"1\",36893488147419103232]");
  std::vector<std::string> digits;
  for (const JsonValue value : document.root().elements())
    digits.emplace_back(value.integer_digits());
  EXPECT_EQ(digits,
            (std::vector<std::string>{"18446744073709551616", "-123456789012345678901234567890",
                                      "-0", "", "", "", "", "", "36893488147419103232"}));
  EXPECT_EQ(document.root().element(0).as_double(), 18446744073709551616.0);
  const JsonDocument alone = parse("18446744073709551616");
  EXPECT_EQ(alone.root().integer_digits(), "18446744073709551616");
}

TEST(JsonWriter, WrittenTextReadsBackTheSame) {
  const std::string text =
      R"({"a":[1,-2,18446744073709551615,1.5,1.0,1e+300,null,true],"b\n\u0001":{"":"é\"\\"},"c":[],"d":{}})";
  JsonWriter json;
  json.value(parse(text).root());
  EXPECT_EQ(json.text(), text);
}

TEST(JsonWriter, IndentsAndReplacesBrokenText) {
  JsonWriter json(2);
  json.begin_object().key("a").value("\xff").key("nan").value(0.0 / 0.0).end_object();
  EXPECT_EQ(json.text(), "{\n  \"a\": \"\xef\xbf\xbd\",\n  \"nan\": null\n}");
}

TEST(Json, APartIsADocumentThatNamesItsPlaceInTheWhole) {
  const JsonDocument part = [] {
    const JsonDocument whole = parse("[{\"a\": 1},\n {\"a\": \"x\"}]");
    return whole.part(whole.root().element(1));
  }();
  EXPECT_EQ(part.root().at("a").as_string(), "x");
  EXPECT_ERROR_SAYS(part.root().at("a").as_int64(), ExitCode::usage, "c.json:2: '[1].a' must be");
}

TEST(JsonWriter, EscapesTerminalControls) {
  EXPECT_EQ(json_quote("a\x1b\x7f\xc2\x9b\xc2\xa9"), "\"a\\u001b\\u007f\\u009b\xc2\xa9\"");
}

TEST(JsonWriter, EscapesOverridesOfDirection) {
  const std::string text =
      "\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa";
  EXPECT_EQ(json_quote(text), "\"\\u202a\\u202e\xe2\x80\xaf\\u2066\\u2069\xe2\x81\xaa\"");
  EXPECT_EQ(JsonDocument::parse(json_quote(text), "c.json").root().as_string(), text);
}

TEST(Json, AMissingElementIsAnError) {
  const JsonDocument document = parse("{\n\"a\": [1, [2]]}");
  const JsonValue a = document.root().at("a");
  EXPECT_EQ(a.element(1).element(0).as_int64(), 2);
  EXPECT_EQ(a.element(1).path(), "a[1]");
  EXPECT_USER_ERROR(a.element(2), ExitCode::usage,
                    "c.json:2: 'a' must have at least 3 elements, got an array of 2");
  EXPECT_ERROR_SAYS(document.root().element(0), ExitCode::usage, "must be an array");
}

}  // namespace
}  // namespace lamina
