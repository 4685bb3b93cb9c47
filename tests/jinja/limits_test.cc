// Templates come with models: no template may loop for ever, fill the memory or overflow the stack.
#include <pthread.h>

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

// Sizes whose product overflows.
TEST(JinjaLimits, ProductsOfSizesAreChecked) {
  for (const char* source :
       {"{{ 'aaaa' * 2**126 }}", "{{ [1,2,3,4] * 2**126 }}", "{{ (1,2) * 2**125 }}",
        "{{ 2**126 * 'aaaa' }}", "{{ 'aaaa' * (2**126 + 1) }}"})
    expect_limit(source, "repeats a value");
  expect_limit("{{ 'a'.expandtabs(1) }}{{ '\t'.expandtabs(2**62) }}", "a string has more than");
  expect_limit("{{ ('\t' * 1000000).expandtabs(1000) }}", "a string has more than");
  expect_limit("{{ '%*d' % (2000000, 1) }}", "a format asks for more than");
  expect_limit("{{ 'x' | indent(2**62) }}", "a string has more than");
  expect_limit("{{ ('x\n' * 1000000) | indent('y' * 1000000) }}", "for its values");
  expect_limit("{{ [1] | tojson(indent=2**62) }}", "a string has more than");
  expect_limit("{{ ('y' * 1000000).join('x' * 1000000) }}", "for its values");
  expect_limit("{{ 'x'.ljust(2**62) }}", "a string has more than");
  expect_limit("{{ 'x'.zfill(2**62) }}", "a string has more than");
  expect_limit("{{ '{:1048577}'.format(1) }}", "a format asks for more than");
  expect_limit("{{ 1 | round(400, 'ceil') }}", "makes the number too large");
  expect_limit("{{ (-2)**127 }}", "an integer needs more than 127 bits");
  expect_limit("{{ (-(2**126) - 2**126) // -1 }}", "an integer needs more than 127 bits");
  EXPECT_EQ(render("{{ 'x' | truncate(2**62, leeway=2**62) }}"), "x");
  EXPECT_EQ(render("{{ range(-(2**62), 2**62, 2**61)[::2**61] | list | length }}"), "1");
  EXPECT_EQ(render("{{ '' * 2**126 }}{{ [] * 2**126 }}{{ 'a' * -(2**126) }}"), "[]");
  EXPECT_EQ(render("{{ '\t|'.expandtabs(2000) | length }}"), "2001");
}

// Values are made before the render, outside of its handling of errors.
TEST(JinjaLimits, LongStringsOfJsonAreErrorsAtTheirPlace) {
  const std::string longest(kMaxText, 'x');
  EXPECT_EQ(render("{{ v[0] | length }}", R"({"v": [")" + longest + R"("]})"), "16777216");
  EXPECT_ERROR_SAYS(render("{{ v[0] | length }}", R"({"v": ["y)" + longest + R"("]})"),
                    ExitCode::usage,
                    "context.json:1: 'v[0]' cannot be a value of a template: a string has more "
                    "than 16777216 characters");
  EXPECT_ERROR_SAYS(render("{{ v | length }}", R"({"v": {"y)" + longest + R"(": 1}})"),
                    ExitCode::usage, "context.json:1: 'v' cannot be a value of a template");
}

TEST(JinjaLimits, RecursionEnds) {
  expect_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
               "evaluations are inside each other");
  expect_limit("{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
               "evaluations are inside each other");
}

// Runs `work` on a thread with a stack of `bytes`, which all threads have after `ulimit -s`.
void with_stack_of(std::size_t bytes, void (*work)()) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread = {};
  const auto run = [](void* argument) -> void* {
    reinterpret_cast<void (*)()>(argument)();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, reinterpret_cast<void*>(work)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(JinjaLimits, RecursionEndsOnASmallStackToo) {
  with_stack_of(std::size_t{192} << 10, [] {
    expect_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
                 "evaluations are inside each other");
    expect_limit("{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
                 "evaluations are inside each other");
    EXPECT_EQ(render("{{ " + repeated("(", 60) + "1" + repeated(")", 60) + " }}"), "1");
    EXPECT_EQ(render("{{ " + repeated("[", 90) + repeated("]", 90) + " }}").size(), 180u);
  });
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

// Filters that compute their elements later keep their arguments.
TEST(JinjaLimits, ChainsOfGeneratorsAreRefused) {
  const auto chained = [](std::string_view link) {
    return fmt::format(
        "{{% set n = namespace(g=[1] | map('abs')) %}}{{% for i in range(30000) %}}"
        "{{% set n.g = {} %}}{{% endfor %}}",
        link);
  };
  for (const char* link :
       {"n.g | map('abs')", "[1] | select('in', n.g)", "[1] | reject('in', [n.g])",
        "[{}] | selectattr('x', 'in', n.g)", "[{}] | map(attribute='x', default=n.g)",
        "[[1]] | map('join', d=n.g)", "[1] | unique(attribute=n.g)", "[[1]] | map('first', n.g)"}) {
    SCOPED_TRACE(link);
    expect_limit(chained(link), "values inside each other");
  }
  EXPECT_EQ(render("{% set n = namespace(g=[1] | map('abs')) %}{% for i in range(150) %}"
                   "{% set n.g = n.g | select('in', [1]) %}{% endfor %}{{ n.g | list }}"),
            "[1]");
}

// Namespaces have depth 1, whatever their attributes refer to.
TEST(JinjaLimits, GeneratorsThatReadEachOtherThroughNamespacesEnd) {
  const auto chained = [](int links) {
    return fmt::format(
        "{{% set n = namespace(p=namespace(g=[1])) %}}{{% for i in range({}) %}}"
        "{{% set n.p = namespace(g=[n.p] | map(attribute='g') | map('list')) %}}{{% endfor %}}"
        "{{{{ n.p.g | list }}}}",
        links);
  };
  expect_limit(chained(30000), "reads more than 200 generators inside each other");
  EXPECT_EQ(render(chained(3)), "[[[[1]]]]");
  EXPECT_EQ(render("{% set a = [0] | map('abs') %}{{ a | list }}"), "[0]");  // after a failure
}

// Two references to the same list, nested 100 times: 2^100 elements to print.
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

// Each iteration keeps the one before alive; releasing them must not recurse.
TEST(JinjaLimits, ChainsOfScopesAreReleased) {
  EXPECT_EQ(render("{% macro m() %}{% set n.c = caller %}{% endmacro %}{% set n = namespace() %}"
                   "{% for i in range(50000) %}{% set y = n.c %}{% call m() %}{{ y }}{% endcall %}"
                   "{% endfor %}"),
            "");
}

// Each of these must count, by far, more than its evaluation.
TEST(JinjaLimits, WorkOnLongValuesIsCounted) {
  const std::string text(1'000'000, 'x');
  const std::string context = R"({"s": ")" + text + R"(", "t": ")" + text + R"("})";
  const auto render_few_steps = [&](std::string_view condition, const std::string& variables) {
    return testing::render_all(
               fmt::format("{{% for i in range(100) %}}{{% if {} %}}{{% endif %}}{{% endfor %}}",
                           condition),
               variables, {.limits = {.max_steps = 20'000}})
        .text;
  };
  for (const char* condition : {"s is lower",
                                "s is upper",
                                "s | upper",
                                "s | lower",
                                "s | title",
                                "s | capitalize",
                                "s | string",
                                "s | e",
                                "s | urlencode",
                                "s | int",
                                "s | float",
                                "s | wordcount",
                                "s | wordwrap(9999)",
                                "s | trim('x')",
                                "s | trim",
                                "s.strip('x')",
                                "s.title()",
                                "s.swapcase()",
                                "s.casefold()",
                                "s.isalpha()",
                                "s.isascii()",
                                "s.istitle()",
                                "s.isupper()",
                                "s.splitlines()",
                                "s.count('x')",
                                "s.count('y')",
                                "s.find('y')",
                                "s.rfind('y')",
                                "s.startswith(t)",
                                "s.encode()",
                                "s[1:]",
                                "s == t",
                                "s < t",
                                "'y' in s",
                                "s is in [t]",
                                "{s: 1}",
                                "[s] | string",
                                "[s] | tojson",
                                "s.format()",
                                "s % ()",
                                "s | list",
                                "s | last",
                                "[0] | batch(100000, 0)",
                                "[0] | slice(100000)",
                                "range(100000) | last"}) {
    SCOPED_TRACE(condition);
    EXPECT_ERROR_SAYS(render_few_steps(condition, context), ExitCode::usage,
                      "takes more than 20000 steps");
  }
  EXPECT_EQ(render_few_steps("s", context), "");
}

TEST(JinjaLimits, HostileSearchesAreCounted) {
  expect_limit("{% set a = 'a' * 4000000 %}{{ a.find('a' * 2000000 ~ 'b') }}",
               "steps; a template may take no more");
}

}  // namespace
}  // namespace lamina::jinja
