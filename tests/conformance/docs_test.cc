// Compares docs/plugin_check.md and docs/plugin_requirements.md with the table of checks.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "conformance/check.h"
#include "support/paths.h"
#include "wrong_cases.h"
#include "wrong_family.h"
#include "zoo.h"

namespace lamina::conformance {
namespace {

std::string page(const char* name) {
  std::ifstream in(std::string(LAMINA_SOURCE_DIR "/docs/") + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::set<std::string> parts_of(const std::string& list) {
  static const std::regex id("[A-Z]+-[0-9]+");
  return {std::sregex_token_iterator(list.begin(), list.end(), id), {}};
}

// Returns each rule of the page with the text after "Kit:".
std::map<std::string, std::string> rules() {
  const std::string text = page("plugin_requirements.md");
  std::map<std::string, std::string> out;
  static const std::regex rule("\n- \\*\\*([VFCM]-[0-9]+)\\*\\*((?:[^\n]|\n(?!- \\*\\*|\n))*)");
  for (std::sregex_iterator at(text.begin(), text.end(), rule), end; at != end; ++at) {
    const std::string body = std::regex_replace((*at)[2].str(), std::regex("\\s+"), " ");
    const std::size_t kit = body.rfind("Kit: ");
    out[(*at)[1]] = kit == body.npos ? "" : body.substr(kit);
  }
  return out;
}

TEST(Requirements, NameTheirChecksOrTheReasonForNone) {
  std::map<std::string, std::set<std::string>> by_rule;
  for (const Check& check : all_checks())
    for (const std::string& rule : parts_of(std::string(check.rules)))
      by_rule[rule].insert(std::string(check.id));
  const auto all = rules();
  EXPECT_GE(all.size(), 35u);
  for (const auto& [rule, kit] : all) {
    EXPECT_FALSE(kit.empty()) << rule << " says nothing of the kit";
    if (kit.starts_with("Kit: none, ")) {
      EXPECT_FALSE(by_rule.contains(rule)) << rule;
      continue;
    }
    EXPECT_EQ(parts_of(kit), by_rule[rule]) << rule;
  }
  for (const auto& [rule, checks] : by_rule) EXPECT_TRUE(all.contains(rule)) << rule;
}

TEST(CheckPage, HasARowForEveryCheck) {
  const std::string text = page("plugin_check.md");
  for (const Check& check : all_checks())
    EXPECT_NE(text.find("| " + std::string(check.id) + " | " + std::string(name(check.level)) +
                        " | " + std::string(check.rules) + " | " + std::string(check.what)),
              text.npos)
        << check.id;
}

// Every fault of the tests with the checks that find it.
std::map<std::string, std::set<std::string>> faults() {
  std::map<std::string, std::set<std::string>> out;
  const auto add = [&](std::string_view fault, const std::vector<std::string_view>& ids) {
    for (const std::string_view id : ids) out[std::string(fault)].emplace(id);
  };
  for (const WrongPlugin& wrong : wrong_plugins()) add(wrong.fault, wrong.caught_by);
  for (const WrongFamily& wrong : wrong_families()) add(wrong.fault, wrong.caught_by);
  for (const WrongFamily& wrong : wrong_borders()) add(wrong.fault, wrong.caught_by);
  for (const WrongFamily& wrong : wrong_numbers()) add(wrong.fault, wrong.caught_by);
  for (const WrongFamily& wrong : wrong_kernels()) add(wrong.fault, wrong.caught_by);
  for (const WrongCase& wrong : wrong_cases()) add(wrong.fault, {wrong.caught_by});
  return out;
}

TEST(Matrix, HasAFaultForEveryCheckThatCanRun) {
  std::set<std::string> caught;
  for (const auto& [fault, ids] : faults()) caught.insert(ids.begin(), ids.end());
  for (const Check& check : all_checks())
    EXPECT_EQ(caught.contains(std::string(check.id)), check.cannot.empty()) << check.id;
}

TEST(CheckPage, HasTheMatrixOfTheTests) {
  const std::string text = page("plugin_check.md");
  for (const auto& [fault, ids] : faults()) {
    std::string list;
    for (const std::string& id : ids) list += (list.empty() ? "" : ", ") + id;
    EXPECT_NE(text.find("| " + fault + " | " + list + " |"), text.npos)
        << "| " << fault << " | " << list << " |";
  }
}

}  // namespace
}  // namespace lamina::conformance
