// Streams print whole characters and stop in time, for every division of the text.
#include "text/utf8_stream.h"

#include <gtest/gtest.h>

#include <random>

#include "core/utf8.h"

namespace lamina::text {
namespace {

TEST(Utf8Stream, Example) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xe4\xbd"), "");
  EXPECT_EQ(stream.push("\xa0"), "a\xe4\xbd\xa0");
  EXPECT_EQ(stream.push("\xe4"), "");
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
}

TEST(Utf8Stream, AnyCutGivesTheTextOfTheWhole) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) {
      if (random() % 3 == 0)
        bytes += static_cast<char>(random() % 256);
      else
        utf8_append(bytes, U"a\u00e9\u4f60\U0001f600"[random() % 4]);
    }
    Utf8Stream stream;
    std::string out;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t n = 1 + random() % 3;
      const std::string piece = stream.push(bytes.substr(at, n));
      EXPECT_EQ(find_invalid_utf8(piece), piece.npos);
      out += piece;
      at += n;
    }
    out += stream.finish();
    EXPECT_EQ(out, replace_invalid_utf8(bytes));
  }
}

TEST(StopMatcher, Example) {
  StopMatcher stop({"\nUser:"});
  EXPECT_EQ(stop.push("Hi\nUs"), "Hi");
  EXPECT_EQ(stop.push("ing"), "\nUsing");
  EXPECT_EQ(stop.push(".\nUser: x"), ".");
  EXPECT_EQ(stop.found(), "\nUser:");
  EXPECT_EQ(stop.push("more"), "");
}

TEST(StopMatcher, ReturnsHeldTextAtTheEnd) {
  StopMatcher stop({"abc"});
  EXPECT_EQ(stop.push("xab"), "x");
  EXPECT_EQ(stop.finish(), "ab");
  EXPECT_FALSE(stop.found());
}

TEST(StopMatcher, AShorterStopStringCountsWhereALongerOneIsIncomplete) {
  StopMatcher stop({"abcd", "bc"});
  EXPECT_EQ(stop.push("xabc"), "x");
  EXPECT_FALSE(stop.found());
  EXPECT_EQ(stop.finish(), "a");
  EXPECT_EQ(stop.found(), "bc");
  EXPECT_EQ(stop.finish(), "");
}

TEST(StopMatcher, WithoutStopStringsNothingIsHeld) {
  StopMatcher stop({"", ""});
  EXPECT_EQ(stop.push("abc"), "abc");
}

TEST(StopMatcher, AnyCutStopsAtTheFirstStopString) {
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    const std::vector<std::string> stops = round % 2 == 0
                                               ? std::vector<std::string>{"aab", "ba", "bbbb"}
                                               : std::vector<std::string>{"cabc", "ab", "cc"};
    std::string text;
    for (int i = 0; i < 14; ++i) text += "abcc"[random() % 4];
    std::size_t first = text.npos;
    for (const std::string& s : stops) first = std::min(first, text.find(s));
    StopMatcher stop(stops);
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = 1 + random() % 4;
      out += stop.push(text.substr(at, n));
      at += n;
    }
    out += stop.finish();
    EXPECT_EQ(out, text.substr(0, first)) << text;
    EXPECT_EQ(stop.found().has_value(), first != text.npos);
  }
}

}  // namespace
}  // namespace lamina::text
