#include "core/fnv1a.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

// The test vectors of Fowler, Noll and Vo. Initial weights depend on these values.
TEST(Fnv1a, HasThePublishedValues) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8);
  EXPECT_EQ(fnv1a("\xff"), 0xaf64724c8602eb6e);
}

TEST(Fnv1a, HashesANumberAsItsBytes) {
  Fnv1a hash;
  hash.number(0x6867666564636261);
  EXPECT_EQ(hash.value(), fnv1a("abcdefgh"));
}

}  // namespace
}  // namespace lamina
