// The lists of axes and tags hold every name that names.h has.
#include "registry/names.h"
#include "support/paths.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace lamina::registry {
namespace {

std::set<std::string> defined(const std::string& prefix) {
  std::ifstream in(std::string(LAMINA_SOURCE_DIR) + "/plugin_api/include/lamina/names.h");
  const std::regex pattern("#define LAMINA_" + prefix + "_[A-Z0-9_]+ \"([a-z0-9_]+)\".*");
  std::set<std::string> out;
  std::smatch match;
  for (std::string line; std::getline(in, line);)
    if (std::regex_match(line, match, pattern)) out.insert(match[1]);
  return out;
}

TEST(Names, ListsAreThoseOfTheHeader) {
  const auto axes = axis_names();
  const auto tags = tag_names();
  EXPECT_EQ(std::set<std::string>(axes.begin(), axes.end()), defined("AXIS"));
  EXPECT_EQ(std::set<std::string>(tags.begin(), tags.end()), defined("TAG"));
  EXPECT_GT(tags.size(), 10u);
}

}  // namespace
}  // namespace lamina::registry
