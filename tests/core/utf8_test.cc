// UTF-8: well-formed characters, and the number of bytes replaced by one replacement character.
#include "core/utf8.h"

#include <gtest/gtest.h>

#include "core/printable.h"

namespace lamina {
namespace {

TEST(Utf8, Example) {
  EXPECT_EQ(utf8_length("\xe4\xbd\xa0x"), 3u);
  EXPECT_EQ(utf8_decode("\xe4\xbd\xa0"), U'\u4f60');
  EXPECT_EQ(find_invalid_utf8("0123456789\xff"), 10u);
}

TEST(Utf8, EveryCodePointSurvivesTheRoundTrip) {
  for (char32_t code = 0; code <= 0x10ffff; ++code) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::string text;
    utf8_append(text, code);
    ASSERT_EQ(utf8_length(text), text.size());
    ASSERT_EQ(utf8_decode(text), code);
  }
}

TEST(Utf8, RefusesOverlongFormsSurrogatesAndTooLargeCodes) {
  for (const char* bad :
       {"\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\x80", "\xff"})
    EXPECT_EQ(utf8_length(bad), 0u);
}

TEST(Utf8, CountsCharacters) {
  EXPECT_EQ(utf8_num_characters(""), 0u);
  EXPECT_EQ(utf8_num_characters("a\xc3\xa9\xe4\xbd\xa0\xf0\x9f\x98\x80."), 5u);
  EXPECT_TRUE(utf8_continues('\x80') && utf8_continues('\xbf'));
  EXPECT_FALSE(utf8_continues('\x7f') || utf8_continues('\xc0') || utf8_continues('\xff'));
}

TEST(Utf8, ReplacesMaximalParts) {
  EXPECT_EQ(replace_invalid_utf8("\xe4\xbd\xa0\xff"), "\xe4\xbd\xa0\xef\xbf\xbd");
  EXPECT_EQ(replace_invalid_utf8("\xe4\xbdx"), "\xef\xbf\xbdx");
  EXPECT_EQ(replace_invalid_utf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Utf8, KnowsACutCharacterFromABrokenOne) {
  EXPECT_TRUE(utf8_step("\xf0\x9f\x98").cut);
  EXPECT_FALSE(utf8_step("\xf0\x9f\x20").cut);
}

TEST(Printable, EscapesControlBytesAndCutsLongText) {
  EXPECT_EQ(printable("a\x1b[0m\xff\xc3\xa9"), "a\\x1b[0m\\xff\xc3\xa9");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("a\nb\xc2\x9b"), "a\\x0ab\\xc2\\x9b");
  EXPECT_EQ(printable_lines("a\n\tb\r\xc2\x9b\xc2\xa9"), "a\n\tb\\x0d\\xc2\\x9b\xc2\xa9");
}

}  // namespace
}  // namespace lamina
