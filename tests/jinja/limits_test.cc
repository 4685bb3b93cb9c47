// Templates come with models: none may loop, fill the memory or overflow the stack.
#include "jinja/render.h"
#include "support/expect_error.h"

namespace lamina::jinja {
namespace {

using lamina::testing::render;
using ::testing::HasSubstr;

std::string repeated(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

void expect_limit(const std::string& source, const char* says) {
  EXPECT_ERROR_SAYS(render(source), ExitCode::usage, says);
}

TEST(JinjaLimits, LoopsInLoopsEnd) {
  expect_limit("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
               "steps; a template may take no more");
  expect_limit("{{ range(100001) }}", "a template may have 100000");
}

TEST(JinjaLimits, OutputEnds) {
  expect_limit("{% set x = 'x' * 1000000 %}{% for i in range(99) %}{{ x }}{% endfor %}",
               "t.jinja:1:52: writes more than 16777216 characters");
}

TEST(JinjaLimits, MemoryEnds) {
  expect_limit(
      "{% set n = namespace(l=[]) %}{% for i in range(99999) %}"
      "{% set n.l = n.l + ['x' * 100000] %}{% endfor %}",
      "needs more than 512 MiB for its values");
  expect_limit("{{ 'x' * 99999999999 }}", "repeats a value");
  expect_limit("{{ '%999999999d' % 1 }}", "a format asks for more than");
  expect_limit("{{ 'x'.center(999999999) }}", "a string has more than");
}

TEST(JinjaLimits, RecursionEnds) {
  expect_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
               "evaluations are inside each other");
  expect_limit("{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
               "evaluations are inside each other");
}

TEST(JinjaLimits, DeepSourcesAreRefused) {
  expect_limit("{{ " + repeated("(", 9999) + "1" + repeated(")", 9999) + " }}",
               "expressions and blocks are inside each other");
  expect_limit("{{ 1" + repeated(" + 1", 99999) + " }}", "an expression has more than");
  expect_limit("{{ " + repeated("-", 99999) + "1 }}", "expressions and blocks");
  expect_limit(repeated("{% if x %}", 9999), "expressions and blocks");
  expect_limit("{{ x" + repeated("[0]", 99999) + " }}", "an expression has more than");
}

TEST(JinjaLimits, DeepValuesAreRefused) {
  expect_limit(
      "{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = [n.l] %}"
      "{% endfor %}",
      "values inside each other");
}

// Two references to the same list, 100 times over: 2^100 elements to print.
TEST(JinjaLimits, SharedValuesDoNotMultiply) {
  const std::string grow =
      "{% set n = namespace(l=[1]) %}{% for i in range(100) %}{% set n.l = [n.l, n.l] %}"
      "{% endfor %}";
  for (const char* use :
       {"{{ n.l }}", "{{ n.l == [n.l] }}{{ n.l | tojson }}", "{{ n.l | string }}"})
    expect_limit(grow + use, "steps; a template may take no more");
}

TEST(JinjaLimits, NamespacesThatHoldThemselvesEnd) {
  expect_limit("{% set n = namespace() %}{% set n.n = n %}{{ n }}", "prints values that are more");
  EXPECT_EQ(render("{% set n = namespace() %}{% set n.n = [n] %}{{ n.n == [n] }}"), "True");
}

// Each iteration keeps the one before alive; letting go of them must need no stack.
TEST(JinjaLimits, ChainsOfScopesAreReleased) {
  EXPECT_EQ(render("{% macro m() %}{% set n.c = caller %}{% endmacro %}{% set n = namespace() %}"
                   "{% for i in range(50000) %}{% set y = n.c %}{% call m() %}{{ y }}{% endcall %}"
                   "{% endfor %}"),
            "");
}

TEST(JinjaLimits, HostileSearchesAreCounted) {
  expect_limit("{% set a = 'a' * 4000000 %}{{ a.find('a' * 2000000 ~ 'b') }}",
               "steps; a template may take no more");
}

}  // namespace
}  // namespace lamina::jinja
