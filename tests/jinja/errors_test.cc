// Errors in a template name its line and column.
#include "jinja/render.h"
#include "support/expect_error.h"

namespace lamina::jinja {
namespace {

using lamina::testing::render;

TEST(JinjaErrors, ExceptionsOfTheTemplateArePassedOn) {
  EXPECT_USER_ERROR(render("ab\n {{ raise_exception('only user and assistant') }}"),
                    ExitCode::usage, "t.jinja:2:5: only user and assistant");
}

TEST(JinjaErrors, SyntaxErrorsNameTheExpectedToken) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ 1 + }}", "t.jinja:1:8: got the end of the expression; expected an expression"},
      {"a\n{% if x %}b",
       "t.jinja:2:4: 'if' begins here and has no end; expected 'elif' or 'else' "
       "or 'endif'"},
      {"{% frobnicate %}", "t.jinja:1:4: there is no statement 'frobnicate'"},
      {"{{ x | uper }}", "t.jinja:1:8: there is no filter 'uper'; did you mean 'upper'?"},
      {"{{ x is strong }}", "t.jinja:1:9: there is no test 'strong'"},
      {"{# x", "t.jinja:1:1: a comment begins here and has no end; expected '#}'"},
      {"{{ x", "t.jinja:1:1: a tag begins here and has no end; expected '}}'"},
      {"{{ ) }}", "t.jinja:1:4: ')' has no matching opening bracket"},
      {"{% break %}", "t.jinja:1:4: 'break' is not in a loop"},
      {"{% include 'x' %}",
       "t.jinja:1:4: 'include' reads other templates; a chat template is one file"},
      {"{{ 'a\\x4' }}", "t.jinja:1:6: '\\x' needs 2 hexadecimal digits"},
      {"{{ '\\u12' }}", "t.jinja:1:5: '\\u' needs 4 hexadecimal digits"},
      {"{{ '\\U00110000' }}", "t.jinja:1:5: there is no character 110000"},
      {"{{ '\\N{BULLET}' }}",
       "t.jinja:1:5: '\\N' names a character; write the character itself, or its code as "
       "'\\uXXXX'"},
      {"{% for loop in [1] %}{% endfor %}",
       "t.jinja:1:8: 'loop' cannot be assigned to inside a loop; use another name"},
      {"{% for a, loop in [1] %}{% endfor %}",
       "t.jinja:1:11: 'loop' cannot be assigned to inside a loop; use another name"},
      {"{% for a in [] %}{% else %}{% macro m() %}{% set loop = 1 %}{% endmacro %}{% endfor %}",
       "t.jinja:1:50: 'loop' cannot be assigned to inside a loop; use another name"},
      {"{% block a %}{% block a %}{% endblock %}{% endblock %}",
       "t.jinja:1:17: the block 'a' is defined twice"},
      {"{% for x y %}", "t.jinja:1:10: got 'y'; expected 'in'"},
  };
  for (const auto& [source, text] : cases) EXPECT_USER_ERROR(render(source), ExitCode::usage, text);
}

TEST(JinjaErrors, WrongTypesAreErrorsWhereTheyHappen) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ 'a' + 1 }}", "t.jinja:1:8: can only concatenate str (not \"int\") to str; use ~"},
      {"{{ x.y.z }}", "t.jinja:1:5: 'x' is undefined"},
      {"{{ 1 / 0 }}", "t.jinja:1:6: division by zero"},
      {"{{ 5 | length }}", "t.jinja:1:8: object of type 'int' has no len()"},
      {"{% filter length %}abc{% endfilter %}",
       "t.jinja:1:4: the filters of a filter block must give a string, got int"},
      {"{{ {'a': 1} is filter }}", "t.jinja:1:16: unhashable type: 'dict'"},
      {"{{ (1, [2]) is test }}", "t.jinja:1:16: unhashable type: 'list'"},
      {"{% for x in 5 %}{% endfor %}", "t.jinja:1:4: 'int' object is not iterable"},
      {"{{ [1].append(2) }}",
       "t.jinja:1:7: access to attribute 'append' of 'list' object is unsafe"},
      {"{{ x | tojson }}",
       "t.jinja:1:8: Object of type Undefined is not JSON serializable: 'x' is "
       "undefined"},
  };
  for (const auto& [source, text] : cases) EXPECT_USER_ERROR(render(source), ExitCode::usage, text);
}

// Published templates have branches for other programs, with filters that only those have.
TEST(JinjaErrors, UnknownFiltersInBranchesFailOnlyWhenTheyRun) {
  const char* source = "{% if x %}{{ x | from_json }}{% endif %}ok";
  EXPECT_EQ(render(source), "ok");
  EXPECT_USER_ERROR(render(source, R"({"x": 1})"), ExitCode::usage,
                    "t.jinja:1:18: there is no filter 'from_json'");
}

}  // namespace
}  // namespace lamina::jinja
